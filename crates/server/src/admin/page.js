// The page: asks for the past once and for the present each second, and shows both.

import { Chart, block, bytes, clock, count, digits, draw, make, micros, percent, textures }
  from "./charts.js";
import { showInsight } from "./insight.js";

const POLL_MS = 1000;
const PATIENCE_MS = 5000;
const SECONDS_SHOWN = 600;
const MINUTES_SHOWN = 24 * 60;
const CLASSES_SHOWN = 10;
const TIERS = ["hot", "compressed", "flash"];

const past = { seconds: [], minutes: [] };
let range = "seconds";
let names = [];
let answeredMs = 0;
let present;
let areAllClassesShown = false;

const by = (id) => document.getElementById(id);

/** A point of the server as an object. */
function named(values) {
  const point = { time: values[0] };
  names.forEach((name, at) => { point[name] = values[at + 1]; });
  return point;
}

const gets = (point) =>
  point.hits_hot + point.hits_compressed + point.hits_flash + point.misses;
const share = (name) => (point) => point[name] / Math.max(gets(point), 1e-9);
const rate = (value) => `${count(value)}/s`;
const flow = (value) => `${bytes(value)}/s`;

const charts = [
  new Chart({ title: "Requests", format: rate,
    series: [["gets", (p) => p.gets], ["sets", (p) => p.sets], ["misses", (p) => p.misses]] }),
  new Chart({ title: "Hit ratio by tier", format: percent, stacked: true, top: 1,
    series: [["hot", share("hits_hot")], ["compressed", share("hits_compressed")],
      ["flash", share("hits_flash")]] }),
  new Chart({ title: "Latency of gets over a minute", format: micros,
    series: [["median", (p) => p.get_p50_us], ["99 %", (p) => p.get_p99_us]] }),
  new Chart({ title: "Memory", format: bytes, isBytes: true, stacked: true,
    series: [["items", (p) => p.memory_items], ["compressed", (p) => p.memory_compressed],
      ["index", (p) => p.memory_index], ["unused chunks", (p) => p.memory_rest]] }),
  new Chart({ title: "Compression", format: (value) => `${digits(value)} ×`,
    series: [["bytes stored per byte", (p) => p.compression_ratio]] }),
  new Chart({ title: "Items by tier", format: count, stacked: true,
    series: [["hot", (p) => p.items_hot], ["compressed", (p) => p.items_compressed],
      ["flash", (p) => p.items_flash]] }),
  new Chart({ title: "Evictions and expiries", format: rate,
    series: [["evicted", (p) => p.evicted], ["expired", (p) => p.expired]] }),
  new Chart({ title: "Backend time, in seconds per second", format: digits,
    series: [["saved by hits", (p) => p.cost_saved_s],
      ["spent on misses", (p) => p.cost_missed_s]] }),
  new Chart({ title: "Network", format: flow, isBytes: true,
    series: [["in", (p) => p.bytes_in], ["out", (p) => p.bytes_out]] }),
  new Chart({ title: "Processor", format: (value) => `${digits(value)} cores`,
    series: [["in use", (p) => p.cpu_s]] }),
];
const flashCharts = [
  new Chart({ title: "Flash: bytes written", format: flow, isBytes: true,
    series: [["written", (p) => p.flash_written_bytes]] }),
  new Chart({ title: "Flash: reads for requests", format: rate,
    series: [["reads", (p) => p.flash_reads]] }),
];

function showCharts() {
  const [length, step] = range === "seconds" ? [SECONDS_SHOWN, 1] : [MINUTES_SHOWN * 60, 60];
  const now = past.seconds.at(-1)?.time ?? Date.now() / 1000;
  for (const chart of [...charts, ...flashCharts]) {
    if (chart.element.isConnected) chart.update(past[range], [now - length, now, step]);
  }
}

/** The whole past, at the beginning and after a sleep. */
async function loadPast() {
  const history = await ask("/api/history");
  names = history.names;
  for (const ring of ["seconds", "minutes"]) past[ring] = history[ring].points.map(named);
  showCharts();
}

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

/** A number of a metric, 0 if it is not told. */
function number(metrics, name, label) {
  const value = metrics[name] ?? 0;
  return label === undefined ? value : value[label] ?? 0;
}

function big(id, value, unit) {
  by(id).replaceChildren(value, make("small", {}, unit));
}

function duration(seconds) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

function showTiles(stats, point) {
  const { metrics } = stats;
  const hits = point.hits_hot + point.hits_compressed + point.hits_flash;
  const all = gets(point);
  big("ratio", all > 0 ? (100 * hits / all).toFixed(1) : "–", all > 0 ? " %" : "");
  const tiers = TIERS.filter((tier) => tier in metrics.larder_hits_total);
  by("ratio-by").textContent = all > 0
    ? tiers.map((tier) => `${tier} ${percent(point[`hits_${tier}`] / all)}`).join(" · ")
    : "no gets in this second";
  big("requests", count(point.requests), "");
  by("requests-by").textContent =
    `${count(point.gets)} gets · ${count(point.sets)} sets · `
    + `${count(point.connections)} connections`;
  const limit = metrics.memcached_limit_bytes;
  const used = limit - number(metrics, "larder_memory_bytes", "free");
  const [size, unit] = bytes(used).split(" ");
  big("memory", size, ` ${unit}`);
  const ratio = point.compression_ratio;
  by("memory-by").textContent = `of ${bytes(limit)} · ${percent(used / limit)}`
    + (ratio > 0 ? ` · compressed ${digits(ratio)} ×` : "");
  big("items", count(metrics.memcached_current_items), "");
  const places = TIERS.filter((tier) => tier in metrics.larder_items);
  const told = places.map((tier) => `${tier} ${count(metrics.larder_items[tier])}`);
  by("items-by").textContent = told.join(" · ");
}

const OWNERS = [
  ["items", "items, uncompressed"], ["compressed", "compressed zone"], ["index", "index"],
  ["chunks_free", "free chunks"], ["rest", "rest of slabs"], ["flash", "for the flash tier"],
];

function showMemory(metrics) {
  const parts = metrics.larder_memory_bytes;
  const limit = Object.values(parts).reduce((sum, value) => sum + value, 0);
  const width = Math.max(by("memory-map").clientWidth - 34, 200);
  const bar = draw("svg", { class: "bar", viewBox: `0 0 ${width} 44`, role: "img",
    "aria-label": "Memory by owner, as listed below" });
  bar.append(draw("rect", { class: "grid", fill: "none", x: 0.5, y: 0.5, width: width - 1,
    height: 43 }));
  const legend = make("ul", { class: "legend" });
  let at = 0;
  OWNERS.forEach(([name, label], place) => {
    const size = (parts[name] / limit) * width;
    if (size > 0) bar.append(...block(place, { x: at, y: 0, width: size, height: 44 }));
    at += size;
    legend.append(make("li", {},
      draw("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" },
        ...block(place, { x: 0, y: 0, width: 22, height: 12 })),
      label, make("b", {}, bytes(parts[name])), percent(parts[name] / limit)));
  });
  legend.append(make("li", {}, "free", make("b", {}, bytes(parts.free)),
    percent(parts.free / limit)));
  const size = metrics.larder_flash_size_bytes;
  if (size) {
    const used = size - metrics.larder_flash_free_bytes;
    legend.append(make("li", {}, "flash, besides memory",
      make("b", {}, `${bytes(used)} of ${bytes(size)}`), percent(used / size)));
  }
  by("memory-map").replaceChildren(bar, legend);
}

/** Puts rows of cells, each text or an element, into a table. */
function fill(id, rows, columns) {
  const body = by(id).tBodies[0];
  if (rows.length === 0) {
    const empty = make("td", { colspan: columns.length }, "No data yet.");
    body.replaceChildren(make("tr", { class: "empty" }, empty));
    return;
  }
  body.replaceChildren(...rows.map((row) => make("tr", {},
    ...row.map((cell, at) => make("td", columns[at] ? { class: columns[at] } : {}, cell)))));
}

function showClasses(metrics) {
  const taken = (name) => number(metrics, "memcached_slab_chunk_size_bytes", name)
    * number(metrics, "memcached_slab_current_chunks", name);
  let classes = Object.keys(metrics.memcached_slab_chunk_size_bytes ?? {});
  by("all-classes").hidden = classes.length <= CLASSES_SHOWN;
  by("all-classes").textContent = areAllClassesShown
    ? "Only the largest" : `All ${classes.length} classes`;
  if (!areAllClassesShown) {
    classes = classes.sort((a, b) => taken(b) - taken(a)).slice(0, CLASSES_SHOWN);
  }
  classes.sort((a, b) => a - b);
  const rows = classes.map((name) => {
    const of = (metric) => number(metrics, `memcached_slab_${metric}`, name);
    const full = of("chunks_used") / Math.max(of("current_chunks"), 1);
    const meter = draw("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img",
      "aria-label": percent(full) },
      draw("rect", { class: "grid", fill: "none", width: 100, height: 10 }),
      draw("rect", { class: "wash one", width: 100 * full, height: 10 }),
      draw("rect", { class: "texture one", fill: "currentcolor", width: 100 * full, height: 10 }));
    const age = of("items_age_seconds");
    return [name, bytes(of("chunk_size_bytes")), bytes(taken(name)), count(of("chunks_used")),
      meter, count(of("items_evicted_total")), count(of("items_evicted_unfetched_total")),
      age > 0 ? duration(age) : "–"];
  });
  const right = "number";
  fill("classes", rows, [right, right, right, right, "meter", right, right, right]);
}

function showTables(stats) {
  const right = "number";
  const rows = stats.latency.map((one) => [one.command, one.tier === "any" ? "–" : one.tier,
    micros(one.p50_us), micros(one.p99_us), micros(one.p999_us), micros(one.max_us),
    count(one.samples)]);
  fill("latency", rows, ["", "", right, right, right, right, right]);
  showClasses(stats.metrics);
  by("prefixes-section").hidden = stats.prefixes.length === 0;
  fill("prefixes", stats.prefixes.map((one) => [one.prefix || "(none)", count(one.misses),
    `${digits(one.miss_s)} s`, micros(one.typical_us)]), ["", right, right, right]);
}

function say(text, kind) {
  by("phase").textContent = text;
  by("phase").className = kind;
  document.body.classList.toggle("stale", kind === "bad");
}

function show(stats) {
  present = stats;
  by("version").textContent = stats.version;
  by("facts").textContent = [...stats.listening, `policy ${stats.policy}`,
    `up ${duration(stats.metrics.memcached_uptime_seconds)}`].join(" · ");
  say(stats.phase, stats.phase === "serving" ? "good" : "bad");
  if (stats.metrics.larder_flash_size_bytes !== undefined) {
    by("charts").append(...flashCharts.map((chart) => chart.element)
      .filter((element) => !element.isConnected));
  }
  const point = past.seconds.at(-1);
  if (point) showTiles(stats, point);
  showMemory(stats.metrics);
  showTables(stats);
  showInsight(stats.insight, stats.metrics.memcached_limit_bytes, fill);
}

async function poll() {
  try {
    const stats = await ask("/api/stats");
    const last = past.seconds.at(-1)?.time ?? 0;
    names = stats.names;
    if (stats.point) {
      const point = named(stats.point);
      if (point.time - last > 2 || point.time < last) await loadPast();
      else if (point.time > last) past.seconds.push(point);
      past.seconds.splice(0, Math.max(0, past.seconds.length - SECONDS_SHOWN));
      if (past.minutes.length > 0 && point.time - past.minutes.at(-1).time > 61) await loadPast();
    }
    answeredMs = Date.now();
    show(stats);
    showCharts();
  } catch {
    const since = answeredMs ? `no answer since ${clock(answeredMs / 1000)}` : "no answer";
    say(since, "bad");
  }
  setTimeout(poll, POLL_MS);
}

for (const name of ["seconds", "minutes"]) {
  by(name).addEventListener("click", () => {
    range = name;
    by("seconds").setAttribute("aria-pressed", name === "seconds");
    by("minutes").setAttribute("aria-pressed", name === "minutes");
    showCharts();
  });
}
by("all-classes").addEventListener("click", () => {
  areAllClassesShown = !areAllClassesShown;
  if (present) showClasses(present.metrics);
});
document.body.append(textures());
by("charts").append(...charts.map((chart) => chart.element));
addEventListener("resize", showCharts);
poll();
