/**
 * The status page: one document that needs only itself and the status document. The policy names
 * the digests of its style and script, so nothing else runs, no matter what gets into the page.
 */
import { createHash } from "node:crypto";
import { HISTORY_SECONDS } from "./recorder.ts";

/** A leaf; without an icon browsers ask for one. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 14C2 6 7 2 14 2c0 8-4 12-10 11z' fill='%232f7d46'/%3E%3C/svg%3E";

const MINUTES = HISTORY_SECONDS / 60;
const TICKS = Array.from({ length: MINUTES + 1 }, (_, at) => `M${60 * at} 100v5`).join("");
const AGES = Array.from({ length: MINUTES - 1 }, (_, at) => `<span>${MINUTES - 1 - at}</span>`);

/** @param key what its shapes mean, if there are several. */
function plot(id: string, title: string, key = ""): string {
  return `<figure id="${id}">
<figcaption><b>${title}</b>${key}<span id="${id}-value"></span></figcaption>
<div class="plot"><div class="y axis"></div>
<svg viewBox="0 0 ${HISTORY_SECONDS} 100" preserveAspectRatio="none" tabindex="0" role="slider" aria-label="${title}, by second of the last five minutes" aria-valuemin="-${HISTORY_SECONDS}" aria-valuemax="-1" aria-valuenow="-1"><path class="grid"/><path class="ticks" d="${TICKS}"/><path class="base"/><path class="bars"/><path class="line"/><path class="cursor"/></svg>
<div class="x axis"><span>${MINUTES} min</span>${AGES.join("")}<span>now</span></div></div>
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
.large dd { font-size: 1.05rem; white-space: nowrap; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
.stack { display: grid; gap: 1rem; align-content: start; min-width: 0; }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
figcaption b { font-weight: 600; }
figcaption > span { color: var(--faint); font-size: .85rem; }
figcaption > :last-child { width: 100%; }
.key i { display: inline-block; margin: 0 .35rem 0 .6rem; border: 0 solid var(--sun); border-left-width: 3px; height: .8rem; }
.key .dash { width: .8rem; height: 0; border-width: 3px 0 0; border-color: var(--leaf); vertical-align: .25rem; }
.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 .5rem; margin-top: .75rem; }
.axis { display: flex; justify-content: space-between; color: var(--faint); font-size: .8rem; line-height: 1rem; }
.y { flex-direction: column; text-align: right; min-width: 2rem; margin: -.5rem 0; }
.x { grid-column: 2; margin-top: .5rem; }
.x span { width: 3rem; margin: 0 -1.5rem; text-align: center; }
.x :first-child { margin: 0 -3rem 0 0; text-align: left; }
.x :last-child { margin: 0 0 0 -3rem; text-align: right; }
svg { display: block; width: 100%; height: 6.5rem; overflow: visible; touch-action: pan-y; }
:focus-visible { outline: 2px solid var(--leaf); outline-offset: 4px; }
path { vector-effect: non-scaling-stroke; stroke: var(--line); }
.base, .ticks { stroke: var(--faint); }
.bars { vector-effect: none; stroke-width: 1.1; stroke: var(--leaf); }
#syncs .bars, #latency .bars { stroke: var(--sun); }
.line { stroke: var(--leaf); stroke-width: 3px; }
.cursor { stroke: var(--ink); }
table { width: 100%; border-collapse: collapse; font-size: .9rem; }
th { text-align: left; color: var(--faint); font-weight: 400; }
th, td { padding: .3rem .5rem .3rem 0; border-top: 1px solid var(--line); vertical-align: top; }
tr > :last-child { padding-right: 0; }
thead th { border-top: 0; }
.name { overflow-wrap: anywhere; min-width: 6.5rem; }
.number { text-align: right; }
.number, .whole { white-space: nowrap; }
small { display: block; color: var(--faint); }
code { display: block; margin-top: .25rem; overflow-wrap: anywhere; color: var(--ink); }
button { margin-top: .5rem; padding: .25rem .75rem; border: 1px solid var(--line); border-radius: .6rem; font: inherit; background: none; color: var(--leaf); }
.bad { color: var(--bad); }
.none { color: var(--faint); margin: 0; }
`;

/** Polls the status document and shows it as text, never as markup. */
const SCRIPT = String.raw`
"use strict";
const POLL_MS = 2000;
const byId = (id) => document.getElementById(id);
/** Leaves an unchanged text alone, so that its selection stays. */
const say = (id, text) => { if (byId(id).textContent !== text) byId(id).textContent = text; };
const count = new Intl.NumberFormat();
const decimal = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const short = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3, notation: "compact" });
const perSecond = (value) => decimal.format(value) + " /s";
const ms = (value) => value === undefined ? "–" : decimal.format(value) + " ms";
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dayAndClock = (at) => day.format(at) + ", " + clock.format(at);

function size(bytes) {
  if (bytes === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at++; }
  return decimal.format(bytes) + "\u00a0" + units[at];
}

function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * length) return Math.floor(seconds / length) + " " + unit;
  }
  return seconds + " s";
}

/** From 0 to 1, 2 or 5 times a power of ten: the labels from the top, and how far up a value is. */
function evenScale(top) {
  const power = 10 ** Math.floor(Math.log10(top));
  const end = power * [1, 2, 5, 10].find((step) => top <= step * power);
  return { labels: [end, end / 2, 0], share: (value) => value / end };
}

/** A step for each power of ten from 0.1, so that a value shows beside one of a hundred times. */
function powerScale(top) {
  const steps = Math.max(1, Math.ceil(Math.log10(top)) + 1);
  const labels = Array.from({ length: steps + 1 }, (_, at) => 10 ** (steps - 1 - at));
  return { labels, share: (value) => (Math.log10(value) + 1) / steps };
}

/** By id: the series of the bars, that of a line from which they rise, and texts for people. */
const PLOTS = {
  creates: { bars: "creates", most: "peak ", unit: perSecond },
  reads: { bars: "reads", most: "peak ", unit: perSecond },
  latency: { bars: "requestMsP99", line: "requestMsP50", most: "p99 at most ", unit: ms },
  syncs: { bars: "syncMsMax", most: "at most ", unit: ms },
};
const svgOf = (id) => byId(id).querySelector("svg");
const WIDTH = svgOf("creates").viewBox.baseVal.width;
/** The plots show the seconds since 1970 from start up to, and without, end. */
let start = 0;
let end = 0;
/** The second that is read out, in all plots. */
let chosen;

function draw(id, history) {
  const plot = PLOTS[id];
  const bars = history[plot.bars];
  const line = history[plot.line];
  const top = Math.max(0, ...bars);
  const { labels, share } = line ? powerScale(top) : evenScale(top);
  const y = (value) => (99 - 99 * share(value)).toFixed(1);
  const each = (path) => bars.map((value, at) => value === 0 ? "" : path(WIDTH - end + start + at, value, at)).join("");
  const paths = {
    grid: labels.map((_, at) => "M0 " + (100 * at) / (labels.length - 1) + "H" + WIDTH).join(""),
    base: "M" + (WIDTH - end + start) + " 100H" + WIDTH,
    bars: each((x, value, at) => "M" + (x + 0.5) + " " + (line ? y(line[at]) : 100) + "V" + y(value)),
    line: line ? each((x, value, at) => "M" + x + " " + y(line[at]) + "h1") : "",
  };
  for (const [name, d] of Object.entries(paths)) svgOf(id).querySelector("." + name).setAttribute("d", d);
  const texts = labels.map((label) => top === 0 ? "" : short.format(label));
  byId(id).querySelector(".y").replaceChildren(...texts.map((textContent) =>
    Object.assign(document.createElement("span"), { textContent })));
  plot.rest = top === 0 ? "none" : plot.most + plot.unit(top);
  plot.read = (at) => bars[at] === 0 ? "none" : (line ? "p50 " + ms(line[at]) + ", p99 " : "") + plot.unit(bars[at]);
}

/** Reads out a second, the nearest that the plots show; undefined for none. */
function choose(second) {
  const isShown = second !== undefined && start < end;
  chosen = isShown ? Math.min(end - 1, Math.max(start, second)) : undefined;
  for (const [id, { read, rest = "none" }] of Object.entries(PLOTS)) {
    const text = isShown ? read(chosen - start) + " at " + clock.format(1000 * chosen) : rest;
    say(id + "-value", text);
    svgOf(id).setAttribute("aria-valuenow", isShown ? chosen - end : -1);
    svgOf(id).setAttribute("aria-valuetext", text);
    const d = isShown ? "M" + (WIDTH - end + chosen + 0.5) + " 0V100" : "";
    svgOf(id).querySelector(".cursor").setAttribute("d", d);
  }
}

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -60, PageUp: 60, Home: -Infinity, End: Infinity };

/** Also while another window is in front. */
const isAnyFocused = () => document.activeElement?.closest("svg");

function watch(svg) {
  const point = ({ clientX }) => {
    const { left, width } = svg.getBoundingClientRect();
    choose(end - WIDTH + Math.floor((WIDTH * (clientX - left)) / width));
  };
  const on = (type, listener) => svg.addEventListener(type, listener);
  on("pointerdown", point);
  on("pointermove", point);
  on("pointerleave", ({ pointerType }) => { if (pointerType === "mouse" && !isAnyFocused()) choose(); });
  on("focus", () => choose(chosen ?? end));
  on("blur", () => { if (!isAnyFocused()) choose(); });
  on("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") return choose();
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    choose((chosen ?? end) + STEPS[event.key]);
  });
}

const filled = new Map();

/** @param rows of cells, each a text or a time for its age, a class, and a second line. */
function fill(id, rows) {
  const all = JSON.stringify(rows);
  if (filled.get(id) === all) return;
  filled.set(id, all);
  const lines = rows.map((cells) => {
    const line = document.createElement("tr");
    for (const [text, className = "", detail = ""] of cells) {
      const cell = Object.assign(line.insertCell(), { className });
      if (typeof text === "number") cell.dataset.at = text;
      else cell.append(text);
      if (detail !== "") cell.append(Object.assign(document.createElement("small"), { textContent: detail }));
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
  return [day + " (in\u00a0" + span(left).replace(" ", "\u00a0") + ")", left < 7 * 86400000 ? "bad" : ""];
}

/** How far the server's clock is ahead of the browser's. */
let clockAheadMs = 0;
/** When the last answer was made, by the server's clock. */
let answeredAt;

function showAges() {
  for (const element of document.querySelectorAll("[data-at]")) {
    element.textContent = span(Date.now() + clockAheadMs - element.dataset.at) + " ago";
  }
}

/** @param at of an event whose age is shown from now on; undefined for none. */
function sayAge(id, at, none = "") {
  if (at !== undefined) { byId(id).dataset.at = at; return; }
  delete byId(id).dataset.at;
  say(id, none);
}

function room({ freeBytes, totalBytes }) {
  if (freeBytes === undefined) return "unknown";
  const share = Math.floor((100 * freeBytes) / totalBytes);
  return size(freeBytes) + ", " + share + "\u00a0% of " + size(totalBytes);
}

const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

/** As serve prints it. */
function requestCommand(url = "http://HOST:PORT") {
  return "curl -X POST " + quoted(url + "/plants") + ' -H "Authorization: Bearer $TOKEN"' +
    " -H 'Content-Type: application/json' -d " + quoted('{"id":1,"name":"Monstera deliciosa","tag":"tropical"}');
}

/** The command that creates a token for this server, as a shell takes it. */
function tokenCommand({ folder, database }) {
  const command = "plant-store token create NAME";
  if (database) return command + " --database URL";
  if (folder === undefined) return command;
  const isPlain = /^[\w./-]+$/.test(folder);
  return command + " --data " + (isPlain ? folder : quoted(folder));
}

function showDatabase({ database, queueBytes, now }) {
  byId("database").hidden = !database;
  byId("disk").hidden = Boolean(database);
  if (!database) return;
  const { host, isSynchronous, leaseAgeMs } = database;
  say("host", host ?? "none answers");
  say("standby", isSynchronous === undefined ? "unknown" : isSynchronous ? "yes" : "no");
  sayAge("lease", now - leaseAgeMs);
  say("unsent", size(queueBytes));
}

function show(status) {
  const { history, now, msSinceRefusal } = status;
  clockAheadMs = now - Date.now();
  answeredAt = now;
  showState(status.state, status.message);
  sayAge("answered");
  say("about", "version " + status.version + ", started ");
  sayAge("started", status.startedAt);
  say("plants", status.plants === undefined ? "–" : count.format(status.plants));
  say("creates-now", perSecond(history.recent.creates));
  say("reads-now", perSecond(history.recent.reads));
  say("p50", ms(history.recent.requestMsP50));
  say("p99", ms(history.recent.requestMsP99));
  say("memory", size(status.memoryBytes));
  end = Math.floor(now / 1000);
  start = end - history.creates.length;
  for (const id of Object.keys(PLOTS)) draw(id, history);
  choose(chosen < start ? undefined : chosen);

  byId("first").hidden = status.plants !== 0 || status.database !== undefined; // which only estimates
  say("request", requestCommand(status.url));
  showDatabase(status);
  say("folder", status.folder ?? "unknown");
  say("log", size(status.logBytes));
  say("free", room(status));
  byId("free").className = status.isDiskShort ? "bad" : "";
  say("queue", size(status.queueBytes));
  sayAge("refused", msSinceRefusal === undefined ? undefined : now - msSinceRefusal, "none");
  byId("refused").className = msSinceRefusal === undefined ? "" : "bad";

  const rows = status.errors.map(({ error, code, count: times, lastAt, token, reason }) => {
    const last = "last" + (token ? " by " + token : "") + (reason ? ": " + reason : "");
    return [
      [String(error)], [code.replaceAll("_", " "), "name", token || reason ? last : ""],
      [count.format(times), "number"], [lastAt, "number"],
    ];
  });
  fill("failures", rows.filter(([[error]]) => error >= "5"));
  fill("refusals", rows.filter(([[error]]) => error < "5"));
  fill("warnings", status.warnings.map(({ message, count: times, lastAt }) => [
    [message, "name", dayAndClock(lastAt)], [count.format(times), "number"],
  ]));
  say("token-command", tokenCommand(status));
  fill("tokens", (status.tokens ?? []).map((token) => [
    [token.name, "name", token.scopes.join(" ")], expiry(token, now),
    [token.lastUsedAt ?? "not since", "number", token.lastUsedAt ? "" : dayAndClock(status.usesSince)],
  ]));
  if (status.tokens === undefined) byId("tokens-none").hidden = true;
  showAges();
}

function showState(state, message) {
  byId("state").className = state;
  say("state", state.replaceAll("-", " "));
  say("message", message);
  document.title = state === "ready" ? "Plant store" : "Plant store: " + state.replaceAll("-", " ");
}

function showSilence() {
  const from = answeredAt ? "; what is shown is from " + clock.format(answeredAt) + ", " : "";
  showState("silent", "the server does not answer" + from);
  sayAge("answered", answeredAt);
  showAges();
}

async function readStatus() {
  const answer = await fetch("status.json", { signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

async function poll() {
  try {
    if (!document.hidden) await readStatus().then(show, showSilence);
  } finally {
    setTimeout(poll, POLL_MS);
  }
}

for (const id of Object.keys(PLOTS)) watch(svgOf(id));
byId("copy").hidden = !navigator.clipboard; // only pages of this machine, or over HTTPS, have it
byId("copy").addEventListener("click", async () => {
  const copied = navigator.clipboard.writeText(byId("request").textContent);
  say("copy", await copied.then(() => "Copied", () => "Select it to copy"));
  setTimeout(say, POLL_MS, "copy", "Copy");
});
setInterval(showAges, 1000);
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
<header><h1>Plant store</h1><span id="state" role="status">…</span><p><span id="message"></span><span id="answered"></span></p><p><span id="about"></span><span id="started"></span></p>
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
<section id="first" hidden><h2>No plant yet</h2><p class="none">Create the first one, with a token in the variable TOKEN:</p><code id="request"></code><button id="copy" hidden>Copy</button></section>
<div class="pair">${plot("creates", "Creates per second")}${plot("reads", "Reads per second")}
${plot("latency", "Latency in ms", `<span class="key"><i class="dash"></i>p50<i></i>up to p99</span>`)}${plot("syncs", "Slowest sync in ms")}</div>
<section id="disk"><h2>Disk</h2>${facts("tiles place", [
  ["folder", "Data directory"],
  ["log", "Log"],
  ["free", "Free on the disk"],
  ["queue", "Waiting for the disk"],
  ["refused", "Last refused write"],
])}</section>
<section id="database" hidden><h2>Database</h2>${facts("tiles place", [
  ["host", "Host"],
  ["standby", "Synchronous standby"],
  ["lease", "Last proved to be the primary"],
  ["unsent", "Waiting for the database"],
])}</section>
<div class="pair"><div class="stack">
<section><h2>Requests that failed (5xx)</h2>${table("failures", ["Error", "Kind", "Times#", "Last time#"], "None since the start.")}</section>
<section><h2>Requests refused (4xx)</h2>${table("refusals", ["Error", "Kind", "Times#", "Last time#"], "None since the start.")}</section>
</div><div class="stack">
<section><h2>Warnings</h2>${table("warnings", ["The last 20", "Times#"], "None since the start.")}</section>
<section><h2>Tokens</h2>${table("tokens", ["Name", "Expires", "Last use#"], `No live token. Create one: <code id="token-command">plant-store token create NAME</code>`)}</section>
</div></div>
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
