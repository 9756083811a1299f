// Charts as SVG, and how numbers are written. Text from the server only ever becomes the content
// of a text node.

const SVG = "http://www.w3.org/2000/svg";
export const COLORS = ["one", "two", "three", "four", "five", "six"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "1 5", "5 5"];

/** An element with attributes and children; strings become text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The same for a part of a drawing. */
export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** 1234567 as 1.23 M. */
export function count(value) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (value >= size * 0.9995) return `${digits(value / size)} ${unit}`;
  }
  return Number.isInteger(value) ? `${value}` : digits(value);
}

/** Bytes in binary units. */
export function bytes(value) {
  for (const [unit, power] of [["TiB", 40], ["GiB", 30], ["MiB", 20], ["KiB", 10]]) {
    if (value >= 2 ** power * 0.9995) return `${digits(value / 2 ** power)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

/** Microseconds in the unit that suits. */
export function micros(us) {
  if (us >= 999500) return `${digits(us / 1e6)} s`;
  if (us >= 999.5) return `${digits(us / 1e3)} ms`;
  return `${digits(us)} µs`;
}

/** A share as per cent. */
export function percent(share) {
  return `${(share * 100).toFixed(share > 0.9995 || share === 0 ? 0 : 1)} %`;
}

/** Three digits that matter. */
export function digits(value) {
  if (value === 0) return "0";
  if (value >= 99.95) return value.toFixed(0);
  if (value >= 9.995) return value.toFixed(1);
  return value >= 0.01 ? value.toFixed(2) : value.toPrecision(1);
}

/** Which time of the day it was. */
export function clock(unixS) {
  return new Date(unixS * 1000).toLocaleTimeString([], { hour12: false });
}

/** A sample of how a series is drawn. */
function swatch(place, stacked) {
  const sample = draw("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" });
  if (stacked) sample.append(...block(place, { x: 0, y: 0, width: 22, height: 12 }));
  else sample.append(line(place, "M0 6H22"));
  return sample;
}

function line(place, path) {
  const shape = { class: `path ${COLORS[place]}`, d: path };
  if (DASHES[place]) shape["stroke-dasharray"] = DASHES[place];
  return draw("path", shape);
}

/** A rectangle with the color and the texture of its place. */
export function block(place, box) {
  const color = COLORS[place];
  return [
    draw("rect", { class: `wash ${color}`, ...box }),
    draw("rect", { class: `texture ${color}`, fill: `url(#texture-${color})`, ...box }),
    draw("rect", { class: "block", fill: "none", ...box }),
  ];
}

/** Textures, once for the whole page. */
export function textures() {
  const shapes = ["M0 0H8V8H0Z", "M0 8L8 0", "M0 4H8", "M2 2h1v1h-1zM6 6h1v1h-1z", "",
    "M0 0L8 8"];
  const patterns = COLORS.map((color, place) => draw("pattern",
    { id: `texture-${color}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" },
    draw("path", { class: color, d: shapes[place], "stroke-width": place === 0 ? 0 : 1.6,
      fill: place === 0 || place === 3 ? "currentcolor" : "none" })));
  return draw("svg", { width: 0, height: 0, "aria-hidden": "true" }, draw("defs", {}, ...patterns));
}

const HEIGHT = 150;
const FLOOR = HEIGHT - 18;
const ROOF = 10;

/** A chart of a few series over time, as lines or as a stack. */
export class Chart {
  /** `series` are `[label, value of a point]`; `format` writes a value; `top` is its fixed top. */
  constructor({ title, series, format, isBytes = false, stacked = false, top = 0 }) {
    Object.assign(this, { title, series, format, isBytes, stacked, top, points: [],
      range: [0, 1] });
    this.values = series.map(() => make("b", {}));
    const entries = series.map(([label], place) =>
      make("li", {}, swatch(place, stacked), label, this.values[place]));
    this.when = make("li", { class: "when" });
    this.svg = draw("svg", { class: "plot", role: "img" });
    this.element = make("figure", { class: "chart" }, make("h3", {}, title),
      make("ul", { class: "legend" }, ...entries, this.when), this.svg);
    this.svg.addEventListener("pointermove", (event) => {
      this.pointed = event.offsetX;
      this.show();
    });
    this.svg.addEventListener("pointerleave", () => {
      this.pointed = undefined;
      this.show();
    });
  }

  /** Takes points, the oldest first, each with `time`, for a range of times. */
  update(points, range) {
    this.points = points;
    this.range = range;
    this.show();
  }

  show() {
    const width = Math.max(this.svg.clientWidth, 200);
    const shown = this.points.filter((point) => point.time >= this.range[0]);
    const rows = shown.map((point) => this.series.map(([, value]) => Math.max(value(point), 0)));
    const sum = (row) => row.reduce((whole, value) => whole + value, 0);
    const highest = Math.max(0, ...rows.map((row) => (this.stacked ? sum(row) : Math.max(...row))));
    const top = this.top || nice(highest, this.isBytes);
    const [from, to] = this.range;
    const x = (time) => ((time - from) / (to - from)) * width;
    const y = (value) => FLOOR - (Math.min(value, top) / top) * (FLOOR - ROOF);
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    for (const share of [0, 0.5, 1]) {
      const at = y(top * share);
      this.svg.append(draw("line", { class: "grid", x1: 0, x2: width, y1: at, y2: at }));
    }
    this.curves(shown, rows, x, y);
    this.svg.append(draw("text", { x: 2, y: y(top) + 12 }, this.format(top)),
      draw("text", { x: 2, y: HEIGHT - 4 }, clock(from)),
      draw("text", { x: width - 2, y: HEIGHT - 4, "text-anchor": "end" }, clock(to)));
    this.read(shown, rows, x, from + ((this.pointed ?? width) / width) * (to - from));
  }

  curves(shown, rows, x, y) {
    // A server that was not there, or a page that was asleep, leaves a gap.
    const step = this.range[2];
    const isGap = (at) => at > 0 && shown[at].time - shown[at - 1].time > 2.5 * step;
    const path = (height, from = 0, to = shown.length) => {
      let text = "";
      for (let at = from; at < to; at += 1) {
        text += `${at === from || isGap(at) ? "M" : "L"}${x(shown[at].time).toFixed(1)} `;
        text += `${y(height(at)).toFixed(1)}`;
      }
      return text;
    };
    if (!this.stacked) {
      this.series.forEach((_, place) => {
        this.svg.append(line(place, path((at) => rows[at][place])));
      });
      return;
    }
    const level = (at, place) => rows[at].slice(0, place).reduce((all, one) => all + one, 0);
    const breaks = shown.map((_, at) => at).filter(isGap);
    const parts = [0, ...breaks].map((from, at) => [from, breaks[at] ?? shown.length]);
    this.series.forEach((_, place) => {
      const area = parts.filter(([from, to]) => to - from > 1).map(([from, to]) => {
        let text = path((at) => level(at, place + 1), from, to);
        for (let at = to - 1; at >= from; at -= 1) {
          text += `L${x(shown[at].time).toFixed(1)} ${y(level(at, place)).toFixed(1)}`;
        }
        return `${text}Z`;
      }).join("");
      const color = COLORS[place];
      this.svg.append(draw("path", { class: `wash ${color}`, d: area }),
        draw("path", { class: `texture ${color}`, fill: `url(#texture-${color})`, d: area }),
        draw("path", { class: `path ${color}`, d: path((at) => level(at, place + 1)) }));
    });
  }

  /** Writes the values at `time` into the legend. */
  read(shown, rows, x, time) {
    let best = shown.length - 1;
    shown.forEach((point, at) => {
      if (Math.abs(point.time - time) < Math.abs(shown[best].time - time)) best = at;
    });
    const row = rows[best];
    this.values.forEach((value, place) => {
      value.textContent = row ? this.format(row[place]) : "–";
    });
    const isPointed = this.pointed !== undefined && row;
    this.when.textContent = isPointed ? clock(shown[best].time) : "";
    if (isPointed) {
      const at = x(shown[best].time);
      this.svg.append(draw("line", { class: "cursor", x1: at, x2: at, y1: ROOF, y2: FLOOR }));
    }
    const said = this.series.map(([label], place) => `${label} ${this.values[place].textContent}`);
    this.svg.setAttribute("aria-label", `${this.title}: ${said.join(", ")}`);
  }
}

/** The next round number at or above a value; of bytes, one that is round in binary units. */
function nice(value, isBytes) {
  if (value <= 0) return 1;
  const power = isBytes ? 2 ** Math.floor(Math.log2(value)) : 10 ** Math.floor(Math.log10(value));
  const steps = isBytes ? [1, 1.25, 1.5, 1.75, 2] : [1, 1.5, 2, 3, 4, 5, 6, 8, 10];
  return steps.map((step) => step * power).find((step) => step >= value * 0.999);
}
