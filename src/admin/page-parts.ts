/** What the status page is made of: markup in which every value is escaped, figures for people, plots, style. */
import { HISTORY_SECONDS as WIDTH } from "./recorder.ts";

/** Markup. Values become markup only by `html`. */
export type Html = { readonly text: string };

type Value = string | number | Html | readonly Html[];

const toReference = (character: string) => `&#${character.charCodeAt(0)};`;

/** Tag of a template: escapes every value that is not markup. */
export function html({ raw }: TemplateStringsArray, ...values: readonly Value[]): Html {
  const encode = (value: Value): string => {
    if (typeof value !== "object") return String(value).replace(/[&<>"']/g, toReference);
    return "text" in value ? value.text : value.map(encode).join("\n");
  };
  return { text: String.raw({ raw }, ...values.map(encode)) };
}

const DECIMAL = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const SHORT = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });

/** Three digits, or all before the point: `0.693`, `1,204,377`. */
export function figure(value: number): string {
  return value < 1000 ? DECIMAL.format(value) : Math.round(value).toLocaleString("en");
}

export function size(bytes = Number.NaN): string {
  if (Number.isNaN(bytes)) return "unknown";
  const power = Math.max(0, Math.floor(Math.log2(bytes) / 10));
  return `${figure(bytes / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]}`;
}

/** A length of time: `90 s`, `5 min`, `47 d`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const units = { d: 86_400, h: 3600, min: 60, s: 1 };
  const [unit, length] = Object.entries(units).find(([, each]) => seconds >= 2 * each) ?? ["s", 1];
  return `${Math.floor(seconds / length)} ${unit}`;
}

/** Terms and their values in columns. */
export function facts(entries: readonly (readonly [term: string, value: string | Html])[]): Html {
  return html`<dl>${entries.map(([term, text]) => html`<div><dt>${term}</dt><dd>${text}</dd></div>`)}</dl>`;
}

/** A section with a list, or with `none` if it is empty. */
export function list(title: string, items: readonly Html[], none: string | Html): Html {
  const rows = html`<ul>${items.map((item) => html`<li>${item}</li>`)}</ul>`;
  return html`<section><h2>${title}</h2>${items.length === 0 ? html`<p>${none}</p>` : rows}</section>`;
}

/**
 * A plot with a bar for each second, the newest at the right; none for 0. Its scale goes from 0 to 1, 2 or 5 times
 * a power of ten.
 *
 * @param feet where each bar begins; with it the scale is logarithmic, from 0.1.
 */
export function plot(title: string, tops: readonly number[], feet?: readonly number[]): Html {
  const top = Math.max(0, ...tops);
  const power = 10 ** Math.floor(Math.log10(top || 1));
  const end = power * ([1, 2, 5].find((step) => top <= step * power) ?? 10);
  const steps = Math.max(1, Math.ceil(Math.log10(top || 1)) + 1);
  const powers = Array.from({ length: steps + 1 }, (_, at) => 10 ** (at - 1));
  const labels = feet ? powers : [0, end / 2, end];
  const share = (value: number) => (feet ? (Math.log10(value) + 1) / steps : value / end);
  const y = (value: number) => Number((100 - 100 * Math.max(0, share(value))).toFixed(1));
  const bars = tops.map((value, at) => {
    const foot = feet ? Math.max(y(feet[at] ?? 0), y(value) + 1.5) : 100;
    return value === 0 ? "" : `M${WIDTH - tops.length + at + 0.5} ${foot}V${y(value)}`;
  });
  const minutes = Array.from({ length: WIDTH / 60 + 1 }, (_, at) => at);
  const grid = labels.map((label) => `M0 ${y(label)}H${WIDTH}`);
  const ticks = minutes.map((at) => `M${60 * at} 100v4`);
  const says = top === 0 ? "none" : `at most ${figure(top)}`;
  return html`<figure><figcaption><b>${title}</b> <small>${says}</small></figcaption>
<svg viewBox="-36 -8 ${WIDTH + 50} 130" role="img" aria-label="${title}: ${says}">
<path d="${[...grid, ...ticks].join("")}"/><path class="bars" d="${bars.join("")}"/>
${labels.map((label) => html`<text x="-5" y="${y(label) + 3}">${top ? SHORT.format(label) : ""}</text>`)}
${minutes.map((age) => html`<text class="x" x="${WIDTH - 60 * age}" y="118">${age === 0 ? "now" : `${age} min`}</text>`)}
</svg></figure>`;
}

/** Readable on a phone, in the dark, and without colour. */
export const STYLE = html`
:root {
  color-scheme: light dark;
  --ground: light-dark(#f6f8f4, #111512); --card: light-dark(#fff, #1a201c);
  --ink: light-dark(#1b241c, #e6ece5); --faint: light-dark(#5c685e, #9aa79c);
  --line: light-dark(#d9e0d8, #2e3830); --leaf: light-dark(#2f7d46, #6cc486);
  --sun: light-dark(#a15c00, #f0b35a); --bad: light-dark(#b3261e, #ff8a80);
}
* { box-sizing: border-box; margin: 0; padding: 0; overflow-wrap: anywhere; }
body { background: var(--ground); color: var(--ink); font: 16px/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
main { max-width: 60rem; margin: auto; padding: 1rem; }
main, .pair { display: grid; gap: 1rem; }
.pair { grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); align-items: start; }
header, nav, li, figcaption { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem .75rem; }
header p, nav { width: 100%; }
h1 { font-size: 1.35rem; }
h2 { font-size: 1rem; margin-bottom: .5rem; }
a { color: var(--leaf); }
.state { padding: .1rem .6rem; border-radius: 1rem; color: var(--card); background: var(--bad); }
.ready { background: var(--leaf); }
.draining { background: var(--sun); }
.bad { color: var(--bad); }
section, figure { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .75rem 1rem; min-width: 0; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(6.5rem, 1fr)); gap: .75rem 1rem; }
dt, small, p { color: var(--faint); font-size: .85rem; }
dl + p { margin-top: .5rem; }
dd { font-weight: 600; }
li { padding: .3rem 0; border-top: 1px solid var(--line); font-size: .9rem; justify-content: space-between; }
code { display: block; margin-top: .25rem; color: var(--ink); user-select: all; }
svg { display: block; width: 100%; margin-top: .5rem; }
path { stroke: var(--line); stroke-width: .7; }
.bars { stroke: var(--leaf); stroke-width: 1.1; }
figure:nth-child(n + 3) .bars { stroke: var(--sun); }
text { fill: var(--faint); font-size: 10px; text-anchor: end; }
.x { text-anchor: middle; }
@media (max-width: 30rem) { text { font-size: 13px; } }
`;
