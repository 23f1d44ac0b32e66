/** The look of the status page: readable on a phone, in the dark, and without colour. */
export const STATUS_PAGE_STYLE = `
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
