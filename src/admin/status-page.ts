/**
 * The status page: one document that needs only itself and the status document. The policy names
 * the digests of its style and script, so nothing else runs, no matter what gets into the page.
 */
import { createHash } from "node:crypto";
import { HISTORY_SECONDS } from "./recorder.ts";

/** A leaf; without an icon browsers ask for one. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 14C2 6 7 2 14 2c0 8-4 12-10 11z' fill='%232f7d46'/%3E%3C/svg%3E";

/** @param series their classes; a later one is drawn over the earlier ones. */
function plot(id: string, title: string, series: readonly string[] = ["all"]): string {
  const bars = series.map((name) => `<path class="bars ${name}"/>`).join("");
  return `<figure id="${id}">
<figcaption><b>${title}</b><span id="${id}-top"></span></figcaption>
<div class="plot"><div class="y axis"><span></span><span></span><span></span></div>
<svg viewBox="0 0 ${HISTORY_SECONDS} 100" preserveAspectRatio="none" role="img" aria-label="${title}, the last five minutes"><path class="grid" d="M0 0H${HISTORY_SECONDS}M0 50H${HISTORY_SECONDS}"/><path class="base"/>${bars}</svg>
<div class="x axis"><span>5 min ago</span><span>now</span></div></div>
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
header p, .note { margin: 0; color: var(--faint); }
.note { font-size: .85rem; margin-top: .75rem; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; width: 100%; }
a { color: var(--leaf); }
#state { padding: .1rem .6rem; border-radius: 1rem; font-weight: 600; color: var(--card); background: var(--faint); }
#state.ready { background: var(--leaf); }
#state.starting, #state.draining { background: var(--sun); }
#state.out-of-disk, #state.tokens-unreadable, #state.failed, #state.silent { background: var(--bad); }
section, figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .75rem 1rem; min-width: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .75rem 1rem; margin: 0; }
dt { color: var(--faint); font-size: .85rem; }
dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.place div:first-child { grid-column: 1 / -1; }
.large dd { font-size: 1.15rem; white-space: nowrap; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
figcaption b { font-weight: 600; }
.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 .5rem; margin-top: .75rem; }
.axis { display: flex; justify-content: space-between; color: var(--faint); font-size: .8rem; line-height: 1rem; }
.y { flex-direction: column; text-align: right; min-width: 2rem; margin: -.5rem 0; }
.x { grid-column: 2; margin-top: .25rem; }
svg { display: block; width: 100%; height: 6.5rem; overflow: visible; }
path { vector-effect: non-scaling-stroke; stroke: var(--line); }
.base { stroke: var(--faint); }
.bars { vector-effect: none; stroke-width: 1.1; stroke: var(--leaf); }
#syncs .bars, .p99 { stroke: var(--sun); }
table { width: 100%; border-collapse: collapse; font-size: .9rem; }
th { text-align: left; color: var(--faint); font-weight: 400; }
th, td { padding: .3rem .75rem .3rem 0; border-top: 1px solid var(--line); }
tr > :last-child { padding-right: 0; }
thead th { border-top: 0; }
.name { overflow-wrap: anywhere; }
.number { text-align: right; }
.number, .whole { white-space: nowrap; }
code { display: block; overflow-wrap: anywhere; color: var(--ink); }
.bad { color: var(--bad); }
.none { color: var(--faint); margin: 0; }
`;

/** Polls the status document and shows it as text, never as markup. */
const SCRIPT = String.raw`
"use strict";
const POLL_MS = 2000;
const byId = (id) => document.getElementById(id);
const say = (id, text) => { byId(id).textContent = text; };
const count = new Intl.NumberFormat();
const decimal = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const short = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3, notation: "compact" });
const perSecond = (value) => decimal.format(value) + " /s";
const ms = (value) => value === undefined ? "–" : decimal.format(value) + " ms";

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

/** The least of 1, 2 or 5 times a power of ten that a value does not exceed. */
function axisTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => value <= step * power);
}

/**
 * Draws a bar for each second, in each series, and nothing for the time before the start.
 *
 * @param describe makes a text of the greatest value.
 */
function plot(id, describe, ...series) {
  const draw = (selector, d) => byId(id).querySelector(selector).setAttribute("d", d);
  const { width } = byId(id).querySelector("svg").viewBox.baseVal;
  const start = width - series[0].length;
  const top = Math.max(0, ...series.flat());
  const end = axisTop(top);
  for (const [at, values] of series.entries()) {
    const bars = values.map((value, second) => value === 0 ? "" :
      "M" + (start + second + 0.5) + " 100V" + (99 - (99 * value) / end).toFixed(1));
    draw(".bars:nth-of-type(" + (at + 3) + ")", bars.join(""));
  }
  draw(".base", "M" + start + " 100H" + width);
  const labels = top === 0 ? ["", "", ""] : [end, end / 2, 0].map((value) => short.format(value));
  byId(id).querySelectorAll(".y span").forEach((label, at) => { label.textContent = labels[at]; });
  say(id + "-top", top === 0 ? "none" : describe(top));
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
  const day = new Date(token.expiresAt).toISOString().slice(0, 10).replaceAll("-", "\u2011");
  return [day + " (in " + span(left).replace(" ", "\u00a0") + ")", left < 7 * 86400000 ? "bad" : ""];
}

function coverage({ logBytes, checkpointBytes }) {
  if (logBytes === undefined) return "–";
  if (checkpointBytes === undefined) return "nothing yet";
  if (checkpointBytes === logBytes) return "the whole log";
  return "all but the last " + size(logBytes - checkpointBytes);
}

/** The command that creates a token for this server, as a shell takes it. */
function tokenCommand({ folder, database }) {
  const command = "plant-store token create NAME";
  if (database) return command + " --database URL";
  if (folder === undefined) return command;
  const isPlain = /^[\w./-]+$/.test(folder);
  return command + " --data " + (isPlain ? folder : "'" + folder.replaceAll("'", "'\\''") + "'");
}

function showDatabase(database, queueBytes) {
  byId("database").hidden = !database;
  byId("disk").hidden = Boolean(database);
  if (!database) return;
  const { host, isSynchronous, connections, retries, leaseAgeMs } = database;
  say("host", host ?? "none answers");
  say("standby", isSynchronous === undefined ? "unknown" : isSynchronous ? "yes" : "no");
  say("connections", count.format(connections));
  say("retries", count.format(retries));
  say("lease", span(leaseAgeMs) + " ago");
  say("unsent", size(queueBytes));
}

function show(status) {
  const { history, now, refusedMsAgo } = status;
  showState(status.state, status.message);
  say("about", "version " + status.version + ", up " + span(now - status.startedAt));
  say("plants", status.plants === undefined ? "–" : count.format(status.plants));
  say("creates-now", perSecond(history.recent.creates));
  say("reads-now", perSecond(history.recent.reads));
  say("p50", ms(history.recent.requestMsP50));
  say("p99", ms(history.recent.requestMsP99));
  say("memory", size(status.memoryBytes));
  plot("creates", (top) => "peak " + perSecond(top), history.creates);
  plot("reads", (top) => "peak " + perSecond(top), history.reads);
  plot("latency", (top) => "p50 below p99, at most " + ms(top), history.requestMsP99, history.requestMsP50);
  plot("syncs", (top) => "at most " + ms(top), history.syncMsMax);

  showDatabase(status.database, status.queueBytes);
  say("folder", status.folder ?? "unknown");
  say("log", size(status.logBytes));
  say("free", size(status.freeBytes));
  say("queue", size(status.queueBytes));
  say("refused", refusedMsAgo === undefined ? "none" : span(refusedMsAgo) + " ago");
  byId("refused").className = refusedMsAgo === undefined ? "" : "bad";
  say("checkpoint", coverage(status));

  fill("errors", status.errors.map(({ error, code, count: times, lastAt }) => [
    [error], [code.replaceAll("_", " ")], [count.format(times), "number"],
    [span(now - lastAt) + " ago", "number"],
  ]));
  say("token-command", tokenCommand(status));
  fill("tokens", (status.tokens ?? []).map((token) => [
    [token.name, "name"], [token.scopes.join(" "), "whole"], expiry(token, now),
  ]));
  if (status.tokens === undefined) byId("tokens-none").hidden = true;
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
<header><h1>Plant store</h1><span id="state" role="status">…</span><p id="message"></p><p id="about"></p>
<nav aria-label="Of this listener"><a href="metrics">Metrics</a><a href="healthz">Health</a><a href="readyz">Readiness</a><a href="openapi.json">API description</a></nav></header>
<noscript><section>This page asks the server every two seconds and needs JavaScript for that; <a href="metrics">the metrics</a> do not.</section></noscript>
<section aria-label="Now">${facts("tiles large", [
  ["plants", "Plants"],
  ["creates-now", "Creates"],
  ["reads-now", "Reads"],
  ["p50", "Latency, p50"],
  ["p99", "Latency, p99"],
  ["memory", "Memory"],
])}<p class="note">Creates, reads and latency are those of the last 10 s. A stream is one read, without latency.</p></section>
<div class="pair">${plot("creates", "Creates per second")}${plot("reads", "Reads per second")}
${plot("latency", "Latency in ms", ["p99", "p50"])}${plot("syncs", "Slowest sync in ms")}</div>
<section id="disk"><h2>Disk</h2>${facts("tiles place", [
  ["folder", "Data directory"],
  ["log", "Log"],
  ["free", "Free on the disk"],
  ["queue", "Waiting for the disk"],
  ["refused", "Last refused write"],
  ["checkpoint", "Checkpoint covers"],
])}</section>
<section id="database" hidden><h2>Database</h2>${facts("tiles place", [
  ["host", "Host"],
  ["standby", "Synchronous standby"],
  ["lease", "Last proved to be the primary"],
  ["connections", "Connections"],
  ["retries", "Statements sent again"],
  ["unsent", "Waiting for the database"],
])}</section>
<div class="pair">
<section><h2>Errors answered</h2>${table("errors", ["Error", "Kind", "Times#", "Last time#"], "None since the start.")}</section>
<section><h2>Tokens</h2>${table("tokens", ["Name", "Scopes", "Expires"], `No live token. Create one: <code id="token-command">plant-store token create NAME</code>`)}</section>
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
