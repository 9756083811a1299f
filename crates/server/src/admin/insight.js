// What a sample of the keys tells: the miss-ratio curve with what more memory would bring, why
// reads miss, and the most requested keys. Keys only ever become the content of a text node.

import { block, bytes, count, digits, draw, make, percent } from "./charts.js";

const HEIGHT = 210;
const FLOOR = HEIGHT - 34;
const ROOF = 12;
const LEFT = 44;
const RIGHT = 30;
const SIZES = [[-4, "1/16"], [-3, "1/8"], [-2, "1/4"], [-1, "1/2"], [0, "now"], [1, "2 ×"],
  [2, "4 ×"], [3, "8 ×"]];
const TIERS = { hot: "memory, uncompressed", compressed: "memory, compressed", flash: "flash" };
const REASONS = { never: "never stored, or forgotten", expired: "expired", deleted: "deleted",
  flushed: "flushed", evicted: "evicted" };
const KEYS_SHOWN = 10;

const by = (id) => document.getElementById(id);

/** The smallest of a few round shares that is not below this one. */
function ceiling(share) {
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8].find((top) => share <= top) ?? 1;
}

/** The curve: miss ratios over sizes that double, what chance may do to them, and the present. */
function drawCurve(curve, memory) {
  const width = Math.max(by("curve").clientWidth - 34, 260);
  const top = ceiling(Math.max(curve.measured, ...curve.points.map(([, miss]) => miss)));
  const [first, last] = [SIZES[0][0], SIZES.at(-1)[0]];
  const x = (doublings) => LEFT + ((doublings - first) / (last - first)) * (width - LEFT - RIGHT);
  const y = (miss) => FLOOR - (Math.min(Math.max(miss, 0), top) / top) * (FLOOR - ROOF);
  const at = (size, miss) => `${x(Math.log2(size)).toFixed(1)} ${y(miss).toFixed(1)}`;
  const svg = draw("svg", { class: "curve", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img",
    "aria-label": `Of all reads, ${percent(curve.predicted)} would miss with the present memory; `
      + curve.points.filter(([size]) => Number.isInteger(Math.log2(size)))
        .map(([size, miss]) => `${digits(size)} times: ${percent(miss)}`).join(", ") });
  for (const share of [0, 0.5, 1]) {
    const line = y(top * share);
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: line, y2: line }),
      draw("text", { x: LEFT - 6, y: line + 4, "text-anchor": "end" }, percent(top * share)));
  }
  for (const [doublings, label] of SIZES) {
    const middle = { x: x(doublings), "text-anchor": "middle" };
    svg.append(draw("text", { ...middle, y: FLOOR + 15 }, label));
    if (memory > 0 && (width > 520 || doublings % 2 === 0)) {
      svg.append(draw("text", { ...middle, y: FLOOR + 29 }, bytes(memory * 2 ** doublings)));
    }
  }
  const above = curve.points.map(([size, miss, error]) => at(size, miss + 2 * error));
  const below = curve.points.map(([size, miss, error]) => at(size, miss - 2 * error));
  svg.append(
    draw("path", { class: "wash two", d: `M${[...above, ...below.reverse()].join("L")}Z` }),
    draw("line", { class: "cursor", x1: x(0), x2: x(0), y1: ROOF, y2: FLOOR,
      "stroke-dasharray": "2 3" }),
    draw("path", { class: "path two",
      d: `M${curve.points.map(([size, miss]) => at(size, miss)).join("L")}` }),
    draw("circle", { class: "one", fill: "currentcolor", cx: x(0), cy: y(curve.measured), r: 4 }));
  return svg;
}

function showCurve(insight, memory, fill) {
  const { curve } = insight;
  by("curve-section").hidden = !curve;
  if (!curve) return;
  by("curve").replaceChildren(drawCurve(curve, memory));
  by("curve-note").textContent = `Of ${count(curve.reads_per_second)} reads a second, `
    + `${percent(curve.measured)} missed (the dot); LRU with the present memory would miss `
    + `${percent(curve.predicted)} ± ${percent(2 * curve.error)}. `
    + `The sample has ${count(insight.keys)} keys, ${percent(insight.sampled)} of all; reads older `
    + `than ${digits(insight.half_life_s / 3600)} h weigh less than half.`;
  fill("more", curve.more.map((more) => [TIERS[more.tier], `${count(more.hits)}/s`,
    `${digits(more.saved_s)} s/s`]), ["", "number", "number"]);
}

/** Labels of the ages of evicted keys, by the bounds of their last requests. */
function ageWords(bounds) {
  const words = bounds.map((s) =>
    (s >= 86400 ? `${s / 86400} d` : s >= 3600 ? `${s / 3600} h` : s >= 60 ? `${s / 60} min`
      : `${s} s`));
  return [...words.map((word) => `evicted, last requested less than ${word} before`),
    `evicted, last requested ${words.at(-1)} before or earlier`];
}

function showReasons(insight, fill) {
  const whole = insight.reasons.reduce((sum, [, misses]) => sum + misses, 0);
  by("reasons-section").hidden = whole === 0;
  if (whole === 0) return;
  const width = Math.max(by("reasons").clientWidth - 34, 200);
  const bar = draw("svg", { class: "bar", viewBox: `0 0 ${width} 44`, role: "img",
    "aria-label": "Misses by reason, as listed below" });
  const legend = make("ul", { class: "legend" });
  let at = 0;
  insight.reasons.forEach(([name, misses], place) => {
    const size = (misses / whole) * width;
    if (size > 0) bar.append(...block(place, { x: at, y: 0, width: size, height: 44 }));
    at += size;
    legend.append(make("li", {},
      draw("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" },
        ...block(place, { x: 0, y: 0, width: 22, height: 12 })),
      REASONS[name], make("b", {}, percent(misses / whole))));
  });
  by("reasons").replaceChildren(bar, legend);
  const words = ageWords(insight.age_bounds_s);
  const ages = insight.ages.map((misses, place) => [words[place], percent(misses / whole)]);
  by("ages-table").hidden = !insight.ages.some((misses) => misses > 0);
  fill("ages", ages.filter((_, place) => insight.ages[place] > 0), ["", "number"]);
  by("reasons-note").textContent = insight.forgotten > 0
    ? `${count(insight.forgotten)} keys were forgotten after not being requested for long.`
    : "No key has been forgotten since the start.";
}

function showKeys(insight, fill) {
  const lists = [["by-requests", insight.by_requests, (value) => `${count(value)}/s`],
    ["by-bytes", insight.by_bytes, (value) => `${bytes(value)}/s`]];
  by("keys-section").hidden = insight.by_requests.length === 0;
  for (const [id, keys, format] of lists) {
    fill(id, keys.slice(0, KEYS_SHOWN).map((one) => [make("code", {}, one.key), format(one.least),
      percent(one.share)]), ["key", "number", "number"]);
  }
}

/** Shows all of it; `memory` is the limit, and `fill` puts rows into a table. */
export function showInsight(insight, memory, fill) {
  showCurve(insight, memory, fill);
  showReasons(insight, fill);
  showKeys(insight, fill);
}
