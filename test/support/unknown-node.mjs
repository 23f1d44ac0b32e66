/** Preloaded, it makes Node one on which the tests do not run: nothing that is not documented is used. */
Object.defineProperty(process, "versions", { value: { ...process.versions, node: "27.0.0" } });
