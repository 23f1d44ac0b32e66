/**
 * The status page: one document that needs nothing but itself and the status document. Style and
 * script may run because the policy names their digests; nothing else may, whatever got into the
 * page. Both are text, because they are for a browser alone, and the build makes them small.
 */
import { createHash } from "node:crypto";

/** A leaf, so that no browser asks for an icon. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 14C2 6 7 2 14 2c0 8-4 12-10 11z' fill='%232f7d46'/%3E%3C/svg%3E";

function plot(id: string, title: string): string {
  return `<figure id="${id}" class="${id}">
<figcaption><b>${title}</b><span id="${id}-top"></span></figcaption>
<svg viewBox="0 0 300 100" preserveAspectRatio="none" role="img" aria-label="${title}, the last five minutes"><path class="area"/><path class="line"/></svg>
<div class="axis"><span>5 min ago</span><span>now</span></div>
</figure>`;
}

function facts(className: string, entries: readonly (readonly [id: string, title: string])[]) {
  const items = entries.map(([id, title]) => `<div><dt>${title}</dt><dd id="${id}">–</dd></div>`);
  return `<dl class="${className}">${items.join("")}</dl>`;
}

function table(id: string, columns: readonly string[], none: string): string {
  const heads = columns.map((column) => {
    const className = column.endsWith("#") ? ' class="number"' : "";
    return `<th scope="col"${className}>${column.replace("#", "")}</th>`;
  });
  return `<p class="none" id="${id}-none">${none}</p>
<div class="scroll"><table id="${id}" hidden><thead><tr>${heads.join("")}</tr></thead><tbody></tbody></table></div>`;
}

/** The look: readable on a phone, in the dark, and without colour. */
const STYLE = `
:root {
  color-scheme: light dark;
  --ground: #f6f8f4; --card: #fff; --ink: #1b241c; --faint: #5c685e; --line: #d9e0d8;
  --leaf: #2f7d46; --leaf-soft: #2f7d4626; --sun: #a15c00; --sun-soft: #a15c0022; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #111512; --card: #1a201c; --ink: #e6ece5; --faint: #9aa79c; --line: #2e3830;
    --leaf: #6cc486; --leaf-soft: #6cc48626; --sun: #f0b35a; --sun-soft: #f0b35a22; --bad: #ff8a80;
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
.tiles.plain dd { font-size: 1rem; }
.tiles dd { font-size: 1.3rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
figcaption b { font-weight: 600; }
.axis { display: flex; justify-content: space-between; color: var(--faint); font-size: .8rem; }
svg { display: block; width: 100%; height: 6.5rem; margin-top: .5rem; border-bottom: 1px solid var(--line); overflow: visible; }
svg path { vector-effect: non-scaling-stroke; stroke-width: 1.5; fill: none; stroke-linejoin: round; }
.creates .line { stroke: var(--leaf); }
.creates .area { fill: var(--leaf-soft); stroke: none; }
.syncs .line { stroke: var(--sun); }
.syncs .area { fill: var(--sun-soft); stroke: none; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .9rem; }
th { text-align: left; color: var(--faint); font-weight: 400; }
th, td { padding: .3rem .75rem .3rem 0; border-top: 1px solid var(--line); white-space: nowrap; }
tr > :last-child { padding-right: 0; }
thead th { border-top: 0; }
.number { text-align: right; }
td.name { white-space: normal; overflow-wrap: break-word; }
td.wraps { white-space: normal; min-width: 6rem; }
.bad { color: var(--bad); }
.none { color: var(--faint); margin: 0; }
`;

/** Polls the status document, and writes what it gets as text, never as markup. */
const SCRIPT = `
"use strict";
const POLL_MS = 2000;
const byId = (id) => document.getElementById(id);
const say = (id, text) => { byId(id).textContent = text; };
const count = new Intl.NumberFormat();
const decimal = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

function size(bytes) {
  if (bytes === null) return "unknown";
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

const known = (value, format) => (value === null ? "–" : format(value));

/** Draws values from left to right; a null leaves a gap. */
function plot(figure, values, floor) {
  const present = values.filter((value) => value !== null);
  const top = Math.max(floor, ...present);
  const x = (at) => ((at / (values.length - 1)) * 300).toFixed(1);
  const y = (value) => (98 - (value / top) * 94).toFixed(1);
  let line = "", area = "", start = -1;
  values.forEach((value, at) => {
    if (value === null) return;
    const isFirst = at === 0 || values[at - 1] === null;
    const isLast = at === values.length - 1 || values[at + 1] === null;
    if (isFirst) { start = at; area += "M" + x(at) + " 98"; }
    line += (isFirst ? "M" : "L") + x(at) + " " + y(value);
    if (isFirst && isLast) line += "h1";
    area += "L" + x(at) + " " + y(value);
    if (isLast) area += (isFirst ? "h1" : "") + "V98H" + x(start) + "Z";
  });
  figure.querySelector(".line").setAttribute("d", line);
  figure.querySelector(".area").setAttribute("d", area);
  return { top: present.length === 0 ? null : Math.max(...present) };
}

function row(cells) {
  const tr = document.createElement("tr");
  for (const [text, className] of cells) {
    const td = document.createElement("td");
    td.textContent = text;
    if (className) td.className = className;
    tr.append(td);
  }
  return tr;
}

function fill(id, rows) {
  byId(id).querySelector("tbody").replaceChildren(...rows);
  byId(id).hidden = rows.length === 0;
  byId(id + "-none").hidden = rows.length > 0;
}

function expiry(token, now) {
  if (token.expiresAt === null) return ["never", "wraps"];
  const left = token.expiresAt - now;
  const day = new Date(token.expiresAt).toISOString().slice(0, 10);
  return [day + " (in " + span(left) + ")", left < 7 * 86400000 ? "wraps bad" : "wraps"];
}

function mean(values) {
  const present = values.filter((value) => value !== null);
  return present.length === 0 ? null : present.reduce((sum, value) => sum + value) / present.length;
}

function show(status) {
  const { history, now } = status;
  showState(status.state, status.message);
  say("about", "version " + status.version + ", up " + span(now - status.startedAt));
  say("plants", known(status.plants, (n) => count.format(n)));
  say("log", size(status.logBytes));
  say("queue", size(status.queueBytes));
  say("rate", known(mean(history.creates.slice(-10)), (n) => decimal.format(n) + " /s"));

  const creates = plot(byId("creates"), history.creates, 1);
  say("creates-top", known(creates.top, (n) => "peak " + count.format(n) + " /s"));
  const syncs = plot(byId("syncs"), history.syncMsMax, 1);
  say("syncs-top", syncs.top === null ? "no sync yet" : "slowest " + decimal.format(syncs.top) + " ms");

  const behind = status.logBytes - status.checkpointBytes;
  say("free", size(status.freeBytes));
  say("refused", status.refusedMsAgo === null ? "no write" : "a write " + span(status.refusedMsAgo) + " ago");
  byId("refused").className = status.refusedMsAgo === null ? "" : "bad";
  say("checkpoint", status.logBytes === null ? "–" : status.checkpointBytes === null ? "none yet"
    : behind === 0 ? "covers the whole log" : "covers all but the last " + size(behind));

  fill("errors", status.errors.map(({ error, code, count: times, lastAt }) => row([
    [String(error)], [code, "name"], [count.format(times), "number"], [span(now - lastAt) + " ago", "number"],
  ])));
  fill("tokens", status.tokens.map((token) => row([
    [token.name, "name"], [token.scopes.join(" ")], expiry(token, now),
  ])));
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
      showState("silent", "the server does not answer; what stands below is old");
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
<noscript><section>This page asks the server every two seconds, and needs JavaScript for it; <a href="metrics">metrics</a> does not.</section></noscript>
<section aria-label="Now">${facts("tiles", [
  ["plants", "Plants"],
  ["rate", "Creates, last 10 s"],
  ["log", "Log"],
  ["queue", "Waiting for the disk"],
])}</section>
<div class="pair">${plot("creates", "Creates per second")}${plot("syncs", "Sync latency")}</div>
<section><h2>Disk and checkpoint</h2>${facts("tiles plain", [
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
