/**
 * The program of the status page, as text: it runs in a browser alone. It
 * polls the status document, and writes what it gets as text, never as markup.
 */
export const STATUS_PAGE_SCRIPT = `
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
