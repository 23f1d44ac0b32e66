/**
 * The status page: one document that needs nothing but itself and the status
 * document. Style and script may run because the policy names their digests;
 * nothing else may, whatever got into the page.
 */
import { createHash } from "node:crypto";
import { STATUS_PAGE_SCRIPT } from "./status-page-script.ts";
import { STATUS_PAGE_STYLE } from "./status-page-style.ts";

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

export const STATUS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Plant store</title>
<link rel="icon" href="${ICON}">
<style>${STATUS_PAGE_STYLE}</style>
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
<script>${STATUS_PAGE_SCRIPT}</script>
</body>
</html>
`;

function digest(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

export const STATUS_PAGE_POLICY = [
  "default-src 'none'",
  `script-src ${digest(STATUS_PAGE_SCRIPT)}`,
  `style-src ${digest(STATUS_PAGE_STYLE)}`,
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");
