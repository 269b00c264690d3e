// A map in a card, with the nodes of some pods outlined and the pods counted. It is drawn once the card is on the page
// and has a width.

import { drawMap, hatched } from "./canvas.js";
import { colouring } from "./colouring.js";
import { card, h } from "./dom.js";
import { count } from "./format.js";
import { domainsOf, layout, range } from "./layout.js";

export function picture(title, map, nodes) {
  const marked = new Map();
  for (const node of nodes) marked.set(node, (marked.get(node) ?? 0) + 1);
  const canvas = h("canvas", {
    role: "img",
    "aria-label": `Map of ${count(map.nodes.length, "node")}; ${count(marked.size, "node")} outlined`,
  });
  const box = h("div.picture", {}, canvas);
  const look = colouring(map, map.slots ? "slots" : "free", map.leading);
  const legend = h("ul.legend", { "aria-label": "Legend" });
  const draw = () => {
    const plan = layout(map, domainsOf(map), box.clientWidth || 600, 420);
    legend.replaceChildren(
      ...legendOf(map, look, plan, { first: 0, end: map.nodes.length }),
      marked.size ? h("li", {}, h("i.chosen"), "its pods") : "",
    );
    const chosen = (at) => marked.has(map.nodes[at]);
    drawMap(
      canvas,
      map,
      plan,
      { ...look, number: (at) => (chosen(at) ? String(marked.get(map.nodes[at])) : look.number(at)) },
      {
        dimmed: (at) => marked.size > 0 && !chosen(at) && plan.cell < 8,
        outlined: (at) => (chosen(at) ? "new" : null),
        fill: (at) => (chosen(at) ? "new-soft" : null),
      },
    );
  };
  requestAnimationFrame(draw);
  return card(title, legend, box);
}

// What shades mean, grey and hatched boxes included if there are any in a range of nodes.
export function legendOf(map, look, plan, scope) {
  const nodes = range(scope);
  const without = [...new Set(nodes.filter((at) => !look.shade(at) && !map.closed[at]).map((at) => look.without(at)))];
  return [
    ...shades([...look.legend, ...(without.length ? [["track", without.join(", ")]] : [])]),
    nodes.some((at) => map.closed[at]) ? h("li", {}, h(hatched(plan) ? "i.striped" : "i.taken"), "closed") : "",
  ];
}

export const shades = (legend) =>
  legend.map(([shade, text]) => h("li", {}, h("i", { style: { background: `var(--${shade})` } }), text));
