/**
 * A small plot as SVG: one line for each series with the range of its samples,
 * places side by side on the x axis, a ratio on the y axis. Its colours follow
 * the reader's light or dark scheme; the ground is transparent.
 */
import type { Spread } from "./numbers.ts";

export interface Series {
  readonly name: string;
  /** One for each place on the x axis. */
  readonly points: readonly Spread[];
}

export interface Plot {
  readonly title: string;
  readonly subtitle: string;
  readonly xTitle: string;
  readonly places: readonly string[];
  readonly series: readonly Series[];
}

const WIDTH = 720;
const HEIGHT = 400;
const LEFT = 56;
const RIGHT = 200;
const TOP = 64;
const BOTTOM = 48;
const LEGEND_LINE = 22;

/** Pairs that most readers, also colour-blind ones, can distinguish on white and on near-black. */
const COLOURS = [
  ["#1f6feb", "#58a6ff"],
  ["#bc4c00", "#f0883e"],
  ["#1a7f37", "#56d364"],
  ["#8250df", "#d2a8ff"],
  ["#9a6700", "#e3b341"],
] as const;

export function drawPlot(plot: Plot): string {
  const top = niceTop(
    Math.max(1, ...plot.series.flatMap(({ points }) => points.map((p) => p.max))),
  );
  const y = (value: number) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const step = (WIDTH - LEFT - RIGHT) / Math.max(1, plot.places.length);
  const x = (place: number) => LEFT + step * (place + 0.5);
  const parts = [
    text(LEFT, 24, plot.title, "title"),
    text(LEFT, 44, plot.subtitle, "small"),
    ...drawGrid(top, y),
    ...plot.places.map((place, at) => text(x(at), HEIGHT - BOTTOM + 20, place, "middle")),
    text(LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 8, plot.xTitle, "small middle"),
    ...plot.series.flatMap((series, index) => drawSeries(series, index, plot.series.length, x, y)),
  ];
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" ` +
    `role="img" aria-label="${escapeXml(plot.title)}">\n${STYLE}\n${parts.join("\n")}\n</svg>\n`
  );
}

const STYLE = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.small { font-size: 11px; fill: #59636e; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.one { stroke: #59636e; stroke-width: 1.5; }
.line { fill: none; stroke-width: 2.5; }
.range { stroke-width: 1.5; }
${COLOURS.map(([light], at) => `.s${at} { stroke: ${light}; } .f${at} { fill: ${light}; }`).join("\n")}
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; }
.small { fill: #9198a1; }
.grid { stroke: #3d444d; }
.one { stroke: #9198a1; }
${COLOURS.map(([, dark], at) => `.s${at} { stroke: ${dark}; } .f${at} { fill: ${dark}; }`).join("\n")}
}
</style>`;

function drawGrid(top: number, y: (value: number) => number): string[] {
  const lines: string[] = [];
  for (let value = 0; value <= top + 1e-9; value += 0.25) {
    const kind = Math.abs(value - 1) < 1e-9 ? "one" : "grid";
    lines.push(
      `<line class="${kind}" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}"/>`,
      text(LEFT - 8, y(value) + 4, value.toFixed(2), "small end"),
    );
  }
  return lines;
}

function drawSeries(
  { name, points }: Series,
  index: number,
  count: number,
  x: (place: number) => number,
  y: (value: number) => number,
): string[] {
  const colour = index % COLOURS.length;
  const shift = (index - (count - 1) / 2) * 6; // so that ranges do not cover each other
  const at = points.map((point, place) => ({ ...point, x: x(place) + shift }));
  const path = at.map((point) => `${point.x},${y(point.median).toFixed(1)}`).join(" ");
  const legendY = TOP + 8 + index * LEGEND_LINE;
  const legendX = WIDTH - RIGHT + 20;
  return [
    `<polyline class="line s${colour}" points="${path}"/>`,
    ...at.map(
      (point) =>
        `<line class="range s${colour}" x1="${point.x}" x2="${point.x}" y1="${y(point.min).toFixed(1)}" y2="${y(point.max).toFixed(1)}"/>`,
    ),
    ...at.map(
      (point) =>
        `<circle class="f${colour}" cx="${point.x}" cy="${y(point.median).toFixed(1)}" r="4"/>`,
    ),
    `<line class="line s${colour}" x1="${legendX}" x2="${legendX + 18}" y1="${legendY}" y2="${legendY}"/>`,
    text(legendX + 24, legendY + 4, name, "legend"),
  ];
}

function text(x: number, y: number, content: string, kind: string): string {
  return `<text class="${kind}" x="${x}" y="${y}">${escapeXml(content)}</text>`;
}

function escapeXml(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

function niceTop(max: number): number {
  return Math.ceil(max * 4) / 4;
}
