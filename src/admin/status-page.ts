/**
 * The status page: one document that needs only itself and the status document. The policy names
 * the digests of its style and script, so nothing else runs, whatever gets into the page.
 */
import { createHash } from "node:crypto";

/** A leaf; without an icon browsers ask for one. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 14C2 6 7 2 14 2c0 8-4 12-10 11z' fill='%232f7d46'/%3E%3C/svg%3E";

function plot(id: string, title: string): string {
  return `<figure id="${id}">
<figcaption><b>${title}</b><span id="${id}-top"></span></figcaption>
<svg viewBox="0 0 300 100" preserveAspectRatio="none" role="img" aria-label="${title}, the last five minutes"><path/></svg>
<div class="axis"><span>5 min ago</span><span>now</span></div>
</figure>`;
}

function facts(className: string, entries: readonly (readonly [id: string, title: string])[]) {
  const items = entries.map(([id, title]) => `<div><dt>${title}</dt><dd id="${id}">–</dd></div>`);
  return `<dl class="${className}">${items.join("")}</dl>`;
}

/** @param columns a name that ends with `#` is a column of numbers. */
function table(id: string, columns: readonly string[], none: string): string {
  const heads = columns.map((column) => {
    const name = column.replace("#", "");
    return `<th scope="col"${name === column ? "" : ' class="number"'}>${name}</th>`;
  });
  return `<p class="none" id="${id}-none">${none}</p>
<table id="${id}" hidden><thead><tr>${heads.join("")}</tr></thead><tbody></tbody></table>`;
}

/** Readable on a phone, in the dark, and without colour. */
const STYLE = `
:root {
  color-scheme: light dark;
  --ground: #f6f8f4; --card: #fff; --ink: #1b241c; --faint: #5c685e; --line: #d9e0d8;
  --leaf: #2f7d46; --sun: #a15c00; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #111512; --card: #1a201c; --ink: #e6ece5; --faint: #9aa79c; --line: #2e3830;
    --leaf: #6cc486; --sun: #f0b35a; --bad: #ff8a80;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums;
}
main { max-width: 60rem; margin: 0 auto; padding: 1rem; display: grid; gap: 1rem; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem .75rem; }
h1 { font-size: 1.35rem; margin: 0; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
header p { margin: 0; color: var(--faint); }
#state { padding: .1rem .6rem; border-radius: 1rem; font-weight: 600; color: var(--card); background: var(--faint); }
#state.ready { background: var(--leaf); }
#state.starting, #state.draining { background: var(--sun); }
#state.out-of-disk, #state.tokens-unreadable, #state.failed, #state.silent { background: var(--bad); }
section, figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .75rem 1rem; min-width: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem 1rem; margin: 0; }
dt { color: var(--faint); font-size: .85rem; }
dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.large dd { font-size: 1.3rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
figcaption b { font-weight: 600; }
.axis { display: flex; justify-content: space-between; color: var(--faint); font-size: .8rem; }
svg { display: block; width: 100%; height: 6.5rem; margin-top: .5rem; border-bottom: 1px solid var(--line); }
path { stroke: var(--leaf); stroke-width: 1.1; }
#syncs path { stroke: var(--sun); }
table { width: 100%; border-collapse: collapse; font-size: .9rem; }
th { text-align: left; color: var(--faint); font-weight: 400; }
th, td { padding: .3rem .75rem .3rem 0; border-top: 1px solid var(--line); }
tr > :last-child { padding-right: 0; }
thead th { border-top: 0; }
.name { overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; }
.bad { color: var(--bad); }
.none { color: var(--faint); margin: 0; }
`;

/** Polls the status document and shows it as text, never as markup. */
const SCRIPT = `
"use strict";
const POLL_MS = 2000;
const byId = (id) => document.getElementById(id);
const say = (id, text) => { byId(id).textContent = text; };
const count = new Intl.NumberFormat();
const decimal = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

function size(bytes) {
  if (bytes === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at++; }
  return decimal.format(bytes) + " " + units[at];
}

function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * length) return Math.floor(seconds / length) + " " + unit;
  }
  return seconds + " s";
}

/** Draws a bar for each second, and shows the greatest value. */
function plot(id, values, format) {
  const top = Math.max(...values);
  const bars = values.map((value, at) =>
    value === 0 ? "" : "M" + (at + 0.5) + " 100v-" + (1 + (95 * value) / top).toFixed(1));
  document.querySelector("#" + id + " path").setAttribute("d", bars.join(""));
  say(id + "-top", top === 0 ? "–" : format(top));
}

/** @param rows of cells, each a text and a class. */
function fill(id, rows) {
  const lines = rows.map((cells) => {
    const line = document.createElement("tr");
    for (const [textContent, className = ""] of cells) {
      Object.assign(line.insertCell(), { textContent, className });
    }
    return line;
  });
  byId(id).querySelector("tbody").replaceChildren(...lines);
  byId(id).hidden = rows.length === 0;
  byId(id + "-none").hidden = rows.length > 0;
}

function expiry(token, now) {
  if (token.expiresAt === undefined) return ["never"];
  const left = token.expiresAt - now;
  const day = new Date(token.expiresAt).toISOString().slice(0, 10);
  return [day + " (in " + span(left) + ")", left < 7 * 86400000 ? "bad" : ""];
}

function coverage({ logBytes, checkpointBytes }) {
  if (logBytes === undefined) return "–";
  if (checkpointBytes === undefined) return "none yet";
  if (checkpointBytes === logBytes) return "covers the whole log";
  return "covers all but the last " + size(logBytes - checkpointBytes);
}

function describeDatabase(database) {
  if (!database) return "";
  const sync = database.isSynchronous ? "with" : "without";
  return ", over a database on " + (database.host ?? "no host") + " " + sync + " a synchronous standby";
}

function show(status) {
  const { history, now, refusedMsAgo } = status;
  showState(status.state, status.message);
  say("about", "version " + status.version + ", up " + span(now - status.startedAt) + describeDatabase(status.database));
  say("plants", status.plants === undefined ? "–" : count.format(status.plants));
  say("log", size(status.logBytes));
  say("queue", size(status.queueBytes));
  const recent = history.creates.slice(-10).reduce((sum, creates) => sum + creates);
  say("rate", decimal.format(recent / 10) + " /s");
  plot("creates", history.creates, (top) => "peak " + count.format(top) + " /s");
  plot("syncs", history.syncMsMax, (top) => "slowest " + decimal.format(top) + " ms");

  say("free", size(status.freeBytes));
  say("refused", refusedMsAgo === undefined ? "no write" : "a write " + span(refusedMsAgo) + " ago");
  byId("refused").className = refusedMsAgo === undefined ? "" : "bad";
  say("checkpoint", coverage(status));

  fill("errors", status.errors.map(({ error, code, count: times, lastAt }) => [
    [error], [code, "name"], [count.format(times), "number"], [span(now - lastAt) + " ago", "number"],
  ]));
  fill("tokens", status.tokens.map((token) => [
    [token.name, "name"], [token.scopes.join(" ")], expiry(token, now),
  ]));
}

function showState(state, message) {
  byId("state").className = state;
  say("state", state.replaceAll("-", " "));
  say("message", message);
  document.title = state === "ready" ? "Plant store" : "Plant store: " + state.replaceAll("-", " ");
}

async function poll() {
  if (!document.hidden) {
    try {
      const answer = await fetch("status.json", { signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error(String(answer.status));
      show(await answer.json());
    } catch {
      showState("silent", "the server does not answer; the figures below are old");
    }
  }
  setTimeout(poll, POLL_MS);
}

poll();
`;

export const STATUS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Plant store</title>
<link rel="icon" href="${ICON}">
<style>${STYLE}</style>
</head>
<body>
<main>
<header><h1>Plant store</h1><span id="state" role="status">…</span><p id="message"></p><p id="about"></p></header>
<noscript><section>This page asks the server every two seconds and needs JavaScript for that; <a href="metrics">the metrics</a> do not.</section></noscript>
<section aria-label="Now">${facts("tiles large", [
  ["plants", "Plants"],
  ["rate", "Creates, last 10 s"],
  ["log", "Log"],
  ["queue", "Waiting for the disk"],
])}</section>
<div class="pair">${plot("creates", "Creates per second")}${plot("syncs", "Sync latency")}</div>
<section><h2>Disk and checkpoint</h2>${facts("tiles", [
  ["free", "Free on the disk"],
  ["refused", "Refused"],
  ["checkpoint", "Checkpoint"],
])}</section>
<div class="pair">
<section><h2>Errors answered</h2>${table("errors", ["Error", "Kind", "Times#", "Last#"], "None since the start.")}</section>
<section><h2>Tokens</h2>${table("tokens", ["Name", "Scopes", "Expires"], "No live token.")}</section>
</div>
</main>
<script>${SCRIPT}</script>
</body>
</html>
`;

function digest(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

export const STATUS_PAGE_POLICY = [
  "default-src 'none'",
  `script-src ${digest(SCRIPT)}`,
  `style-src ${digest(STYLE)}`,
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");
