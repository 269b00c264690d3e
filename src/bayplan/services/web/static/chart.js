// Lines over time as SVG: one for each series, told apart by colour, dashes and a label at the end.

import { h, s } from "./dom.js";
import { time } from "./format.js";

const [WIDEST, HEIGHT, LEFT, BOTTOM, TOP] = [640, 190, 44, 24, 10];
const COLOURS = 4;
const DASHES = ["7 4", "2 3", "9 3 2 3", "12 3"];

// The last one is the one that is judged, and solid.
// `series`: [{ name, at, values, bad }]; `pick` gets the moment that is clicked, `room` are the
// pixels that there are.
export function chart(title, series, { lasts, now, unit = "", pick, room }) {
  const width = Math.min(WIDEST, room);
  const most = niceTop(Math.max(1, ...series.flatMap(({ values }) => values.filter((each) => each !== null))));
  const right = 96;
  const x = (at) => LEFT + ((width - LEFT - right) * at) / (lasts || 1);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const marks = [0, 0.5, 1].map((share) => share * most);
  const picture = s(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${told(series, now, unit)}` },
    marks.map((each) => [
      s("line", { x1: LEFT, x2: width - right, y1: y(each), y2: y(each), class: "grid" }),
      s("text", { x: LEFT - 6, y: y(each) + 4, class: "scale", "text-anchor": "end" }, `${round(each)}${unit}`),
    ]),
    [0, 0.5, 1].map((share) =>
      s("text", { x: x(share * lasts), y: HEIGHT - 6, class: "scale", "text-anchor": "middle" }, time(share * lasts)),
    ),
    series.map((each, number) =>
      s("path", {
        d: line(each, x, y),
        class: `line line-${number % COLOURS}${number === series.length - 1 ? " judged" : ""}`,
        "stroke-dasharray": number === series.length - 1 ? null : DASHES[number % DASHES.length],
      }),
    ),
    s("line", { x1: x(now), x2: x(now), y1: TOP, y2: HEIGHT - BOTTOM, class: "now" }),
    labels(series, y).map(([name, number, at]) =>
      s("text", { x: width - right + 6, y: at, class: `label label-${number % COLOURS}` }, name),
    ),
  );
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) * width) / box.width;
    pick((lasts * (at - LEFT)) / (width - LEFT - right));
  });
  return h("figure.chart", {}, h("figcaption", {}, title), picture);
}

function line({ at, values }, x, y) {
  let path = "";
  values.forEach((value, number) => {
    if (value !== null) path += `${path ? "L" : "M"}${x(at[number]).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  return path;
}

// Names beside the ends of their lines, apart from each other.
function labels(series, y) {
  const ends = series.map(({ name, values }, number) => [
    name,
    number,
    y(values.findLast((each) => each !== null) ?? 0) + 4,
  ]);
  ends.sort((one, other) => one[2] - other[2]);
  for (let at = 1; at < ends.length; at += 1) ends[at][2] = Math.max(ends[at][2], ends[at - 1][2] + 14);
  // Those that were pushed below the axis move up again, and with them only those in their way.
  let lowest = HEIGHT - BOTTOM + 4;
  for (const end of ends.toReversed()) {
    end[2] = Math.min(end[2], lowest);
    lowest = end[2] - 14;
  }
  return ends;
}

function told(series, now, unit) {
  return series.map(({ name, at, values }) => `${name} ${values[valueAt(at, now)] ?? "unknown"}${unit}`).join(", ");
}

// The last point that is not after a moment.
export function valueAt(at, now) {
  const after = at.findIndex((each) => each > now + 1e-6);
  return after < 0 ? at.length - 1 : Math.max(0, after - 1);
}

function niceTop(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((each) => each * size).find((each) => each >= value);
}

const round = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(1));
