/** `npm run bench -- NAME [options]`: runs the program of that name in this folder, with the store built. */
const NAMES = ["creates", "reads", "start"];

const [name = ""] = process.argv.splice(2, 1); // the program reads the options that are left
if (NAMES.includes(name)) await import(`./${name}.ts`);
else {
  process.stderr.write(`npm run bench -- NAME, of: ${NAMES.join(", ")}\n`);
  process.exitCode = 2;
}
