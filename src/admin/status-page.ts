/**
 * The status page: HTML and SVG made on the server, without a script. The browser loads it again every few
 * seconds, unless a person stops that to read or select something.
 */
import { clock } from "../clock.ts";
import { ERRORS } from "../core/errors.ts";
import { facts, figure, type Html, html, list, plot, STYLE, size, span } from "./page-parts.ts";
import { quantileOf, type Recorder, type Slot } from "./recorder.ts";
import { readState, type Status } from "./status.ts";

/** @param reloads whether the browser reloads the page regularly. */
export function renderPage(status: Status, recorder: Recorder, reloads: boolean): string {
  const slots = recorder.history();
  const failures = total(slots, "failures");
  const own = readState(status);
  const isFailing = own.state === "ready" && failures > 0;
  const state = isFailing ? "failing" : own.state;
  const got5xx = `${figure(failures)} requests of the last 5 min got a 5xx`;
  const warnings = recorder.warnings.map((each) => html`${each.message} ${times(each)}`);
  const now = new Date(clock.wallMs()).toISOString().replace("T", " ").slice(0, 19);
  return html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Plant store: ${words(state)}</title><style>${STYLE}</style></head>
<body><main>
<header><h1>Plant store</h1> <b class="state ${state}">${words(state)}</b> ${isFailing ? got5xx : own.message}
<p>version ${status.version}, started ${ago(0)}; shown as of ${now} UTC</p>
<nav aria-label="This listener"><a href="metrics">Metrics</a> <a href="healthz">Health</a>
<a href="readyz">Readiness</a> <a href="openapi.json">API description</a>
${reloads ? html`<a href="?refresh=0">Stop reloading</a>` : html`<a href="?">Reload every 5 s</a>`}</nav></header>
${renderFigures(status, slots)}
${renderFirstRequest(status)}
<div class="pair">${renderPlots(slots)}</div>
${status.folder === undefined ? "" : renderDisk(status, status.folder)}
<div class="pair">
${renderFailures(recorder)}
${list("Warnings", warnings, "None since the start.")}
</div>
${renderTokens(status, recorder)}
</main></body>
</html>
`.text;
}

const WEEK_MS = 7 * 86_400_000;
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`; // for a shell
const words = (name: string) => name.replaceAll(/[-_]/g, " ");
const red = (text: string) => html`<span class="bad">${text}</span>`;
const ago = (at: number) => `${span(clock.monotonicMs() - at)} ago`;
const times = ({ count, lastAt }: { count: number; lastAt: number }) =>
  html`<small>${count === 1 ? "" : `${figure(count)} times, last `}${ago(lastAt)}</small>`;
type Count = "creates" | "reads" | "failures" | "syncMsMax";
const pluck = (slots: readonly Slot[], count: Count) => slots.map((slot) => slot[count]);
const total = (slots: readonly Slot[], count: Count) =>
  pluck(slots, count).reduce((sum, each) => sum + each, 0);

function renderFigures(status: Status, history: readonly Slot[]): Html {
  const slots = history.slice(-10);
  const rate = (count: number) => `${figure(count / Math.max(1, slots.length))} /s`;
  const latency = (share: number) => {
    const seconds = quantileOf(slots, share);
    return seconds === 0 ? "–" : `${figure(1000 * seconds)} ms`;
  };
  const plants = status.store().plants;
  const failures = total(slots, "failures");
  return html`<section aria-label="Now">${facts([
    ["Plants", plants === undefined ? "–" : figure(plants)],
    ["Creates", rate(total(slots, "creates"))],
    ["Reads", rate(total(slots, "reads"))],
    ["Failures (5xx)", failures > 0 ? red(rate(failures)) : "none"],
    ["Latency, p50", latency(0.5)],
    ["Latency, p99", latency(0.99)],
    ["Memory", size(process.memoryUsage.rss())],
  ])}<p>Rates and latency are those of the last 10 s. A list is one read, without latency.</p></section>`;
}

/** A database only estimates how many plants it has. */
function renderFirstRequest(status: Status): Html {
  if (status.store().plants !== 0 || status.database() !== undefined) return html``;
  return html`<section><h2>No plant yet</h2><p>Create the first one, with a token in the variable TOKEN:</p>
<code>curl -X POST ${quote(`${status.url}/plants`)} -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"id":1,"name":"Monstera deliciosa","tag":"tropical"}'</code></section>`;
}

function renderPlots(slots: readonly Slot[]): Html[] {
  const latencies = (share: number) => slots.map((slot) => 1000 * quantileOf([slot], share));
  return [
    plot("Creates per second", pluck(slots, "creates")),
    plot("Reads per second", pluck(slots, "reads")),
    plot("Latency in ms, p50 to p99", latencies(0.99), latencies(0.5)),
    plot("Slowest sync in ms", pluck(slots, "syncMsMax")),
  ];
}

function renderDisk(status: Status, folder: string): Html {
  const { freeBytes, totalBytes = Number.NaN } = status.disk ?? {};
  const { logBytes, queueBytes, msSinceRefusal } = status.store();
  const percent = Math.floor((100 * (freeBytes ?? 0)) / totalBytes);
  const free =
    freeBytes === undefined ? size() : `${size(freeBytes)}, ${percent} % of ${size(totalBytes)}`;
  const refused = msSinceRefusal === undefined ? "never" : red(`${span(msSinceRefusal)} ago`);
  return html`<section><h2>Disk</h2>${facts([
    ["Data directory", folder],
    ["Log", size(logBytes)],
    ["Free", percent < 5 ? red(free) : free],
    ["Waiting to be written", size(queueBytes)],
    ["Last refused write", refused],
  ])}</section>`;
}

function renderFailures({ outcomes }: Recorder): Html {
  const failed = [...outcomes.values()].filter(({ error, count }) => error && count > 0);
  const rows = failed
    .toSorted((a, b) => b.status - a.status)
    .map((outcome) => {
      const [code = ""] = Object.entries(ERRORS).find(([, error]) => error === outcome.error) ?? [];
      const what = `${outcome.error} ${words(code)}, ${outcome.operation}`;
      return html`<span>${outcome.status >= 500 ? red(what) : what}</span> ${times(outcome)}`;
    });
  return list("Requests that failed or were refused", rows, "None since the start.");
}

const TOKENS_MAX = 100;

function renderTokens(status: Status, { lastUses }: Recorder): Html {
  const tokens = status.tokens();
  const rows = tokens.slice(0, TOKENS_MAX).map(({ name, scopes, expiresAt }) => {
    const usedAt = lastUses.get(name);
    const used = usedAt === undefined ? "not used since the start" : `used ${ago(usedAt)}`;
    const leftMs = (expiresAt ?? Number.POSITIVE_INFINITY) - clock.wallMs();
    const expiry = expiresAt === undefined ? "never expires" : `expires in ${span(leftMs)}`;
    const shown = leftMs < WEEK_MS ? red(expiry) : expiry;
    return html`<b>${name}</b> <small>${scopes.join(" and ")}, ${shown}, ${used}</small>`;
  });
  if (tokens.length > TOKENS_MAX) rows.push(html`and ${tokens.length - TOKENS_MAX} more`);
  const place = status.folder ? `--data ${quote(status.folder)}` : "--database URL";
  const command = html`None. Create one: <code>plant-store token create NAME ${place}</code>`;
  return list("Tokens", rows, command);
}
