/**
 * Sends `count` bodies with fetch, `parallel` of them at a time, and prints the status of each
 * answer, or why there was none.
 */
const [url, token, bytes, count, parallel] = process.argv.slice(2);
const body = Buffer.alloc(Number(bytes), "x");
const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };

let left = Number(count);

async function sendMany() {
  while (left-- > 0) {
    try {
      const { status } = await fetch(url, { method: "POST", headers, body });
      console.log(status);
    } catch (error) {
      console.log(`${error.cause ?? error}`);
    }
  }
}

await Promise.all(Array.from({ length: Number(parallel) }, sendMany));
