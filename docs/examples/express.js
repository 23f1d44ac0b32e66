// In Express 5, for users who have logged in: their session is the token.
import express from "express";
import { createRequestListener, PlantStore } from "plant-store";

const sessions = new Map([["s1", "gardener"]]); // session to user: your login fills it
const tokens = {
  verify(session) {
    const name = sessions.get(session);
    return name === undefined ? undefined : { name, scopes: ["write", "read"] };
  },
};
const plants = await PlantStore.open("./data");

const app = express();
app.use("/garden", (req, res, next) => {
  if (!server.listening) res.setHeader("Connection", "close"); // the server stops
  const [, session] = /(?:^|; )session=([^;]+)/.exec(req.headers.cookie ?? "") ?? [];
  if (session !== undefined) req.headers.authorization ??= `Bearer ${session}`;
  next();
});
app.use("/garden", createRequestListener({ plants, tokens })); // before any body parser
app.use(express.json());

const server = app.listen(process.env.PORT ?? 8080, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/garden`);
});
process.once("SIGTERM", () => server.close(() => plants.close()));
