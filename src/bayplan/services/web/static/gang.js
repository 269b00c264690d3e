// Gangs: the list of them, and one gang with its nodes outlined, its ranks, distances, and whether it could be closer.

import { ask } from "./api.js";
import { drawMap } from "./canvas.js";
import { colouring } from "./colouring.js";
import { card, h, nodeLink, path, podLink, table } from "./dom.js";
import { count } from "./format.js";
import { domainsOf, layout } from "./layout.js";
import { amounts, answer, bars, preemption, warnings } from "./why.js";

const MOST_IN_MATRIX = 24;

export function gangsScreen() {
  const element = h("div.gangs");
  const update = async () => {
    const { items, metadata } = await ask("gangs");
    const rows = items.map((each) => [h("a", { href: path("gang", ...each.gang.split("/")) }, each.gang), String(each.members), String(each.running), String(each.waiting), String(each.nodes)]);
    element.replaceChildren(h("h1", {}, "Gangs"), card(null, rows.length ? table(["gang", "#members", "#running", "#waiting", "#nodes"], rows, "Every gang of the cluster") : h("p", {}, "There are no gangs."),
      metadata.remainingItemCount ? h("p.quiet", {}, `and ${metadata.remainingItemCount} more`) : null));
  };
  return { element, update };
}

export function gangScreen({ parts: [namespace, name] }) {
  const element = h("div.gang");
  let last = null;
  const update = async () => {
    const found = await ask(path("why", namespace, "podgroup", name).slice(1));
    const map = found.now.topology ? await ask("map", { topology: found.now.topology }).catch(() => null) : null;
    last = [found, map];
    render();
  };
  const render = () => {
    const [found, map] = last;
    const canvas = h("canvas", { role: "img" });
    const picture = h("div.picture", {}, canvas);
    element.replaceChildren(h("h1", {}, h("span.quiet", {}, "Gang "), `${namespace}/${name}`), ...gangParts(found.now, map ? card(found.now.fits ? "Where it is" : "What is free", picture) : null), preemption(found), warnings(found));
    if (map) outlined(canvas, map, found.now, picture.clientWidth || 600);
  };
  return { element, update, redraw: () => last && render() };
}

function outlined(canvas, map, now, width) {
  const nodes = new Set(seatsOf(now).map((each) => each.node));
  const marked = new Map(map.nodes.map((name, at) => [at, nodes.has(name)]));
  const plan = layout(map, domainsOf(map), width, 420);
  drawMap(canvas, map, plan, colouring(map, "free", map.leading), { dimmed: (at) => nodes.size > 0 && !marked.get(at) && plan.cell < 8, outlined: (at) => marked.get(at), fill: (at) => (marked.get(at) ? "new-soft" : null) });
  canvas.setAttribute("aria-label", `Map of ${count(map.nodes.length, "node")}; ${count(nodes.size, "node")} of the gang outlined`);
}

const seatsOf = (now) => [...now.running, ...now.seats];

// Everything about a gang's decision, also for the Why and What-if screens.
export function gangParts(now, picture = null) {
  const seats = seatsOf(now);
  const domains = now.levels.map((level, depth) => [level, new Set(seats.map((each) => each.domain.slice(0, depth + 1).join("/"))).size]);
  const facts = [["topology", now.topology], ["status", now.status], ["pods", seats.length || null], ["nodes", new Set(seats.map((each) => each.node)).size || null],
    ...domains.filter(([, number]) => number && seats.length).map(([level, number]) => [`${level.slice(level.lastIndexOf("/") + 1)}s`, number]),
    ["largest distance", now.distance?.largest], ["mean distance", now.distance?.mean]];
  return [answer(now.answer, now.fits),
    h("ul.facts", {}, facts.filter(([, value]) => value !== null && value !== undefined).map(([label, value]) => h("li", {}, `${label} `, h("b", {}, String(value))))),
    now.couldBeCloser ? card("Could it be closer?", h("p", {}, `${now.couldBeCloser.text}; ${now.couldBeCloser.proven ? "proven" : "not proven"}.`)) : "",
    picture ?? "",
    now.restsOn && now.seats.length ? card("This rests on", h("p", {}, now.restsOn)) : "",
    ...now.shapes.map(shape),
    now.wouldScheduleIf.length ? card("Would schedule now if", h("ul", {}, now.wouldScheduleIf.map((each) => h("li", {}, each.change)))) : "",
    now.leftOut.length ? card("Left out for now", h("p", {}, now.leftOut.join(", "))) : "",
    seats.length ? card("Ranks", table(["#rank", "pod", "node", "domain"], seats.map((each) => [each.rank === null ? "" : String(each.rank), podLink(each.pod), nodeLink(each.node), each.domain.join(" › ")]), "Where each member is or would go")) : "",
    seats.length > 1 ? card("Distances", matrix(now, seats)) : ""];
}

function shape(each) {
  return card(`${count(each.pods, "pod")} asking for ${amounts(each.asksFor.total)}`,
    each.room.length ? table(["level", "#domains", "#hold all", "#most pods", "in"], each.room.map((room) => [room.level, String(room.domains), String(room.holdAll), String(room.most), room.in.join(" › ")]), "Room for such pods at every level") : null,
    each.stages.length ? bars(each.stages[0].left + each.stages[0].lost, each.stages) : null);
}

// Edges of the tree between two members: 0 on one node, 2 in one rack, and so on.
function matrix(now, seats) {
  const shown = seats.slice(0, MOST_IN_MATRIX);
  const paths = shown.map((each) => [...each.domain, each.node]);
  const between = (one, other) => {
    const common = one.findIndex((part, at) => part !== other[at]);
    return common < 0 ? 0 : 2 * (one.length - common);
  };
  const most = 2 * (now.levels.length + 1);
  const label = (each, at) => String(each.rank ?? at);
  const rows = shown.map((each, at) => h("tr", {}, h("th", { scope: "row", title: each.pod }, label(each, at)),
    paths.map((other) => {
      const far = between(paths[at], other);
      return h(`td.far-${Math.round((4 * far) / most)}`, {}, String(far));
    })));
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Distance matrix" },
    h("table.matrix", {}, h("caption.quiet", {}, `Edges of the tree between ranks${seats.length > shown.length ? `, the first ${shown.length}` : ""}`),
      h("thead", {}, h("tr", {}, h("td"), shown.map((each, at) => h("th", { scope: "col" }, label(each, at))))), h("tbody", {}, rows)));
}
