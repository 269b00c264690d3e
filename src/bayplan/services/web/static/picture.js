// A map in a card with some nodes outlined. It is drawn once the card is on the page and has a width.

import { drawMap } from "./canvas.js";
import { colouring } from "./colouring.js";
import { card, h } from "./dom.js";
import { count } from "./format.js";
import { domainsOf, layout } from "./layout.js";

export function picture(title, map, nodes) {
  const marked = new Set(nodes);
  const canvas = h("canvas", {
    role: "img",
    "aria-label": `Map of ${count(map.nodes.length, "node")}; ${count(marked.size, "node")} outlined`,
  });
  const box = h("div.picture", {}, canvas);
  const look = colouring(map, "free", map.leading);
  const fits = map.slots ? colouring(map, "slots") : null;
  const brief = (first, end) =>
    fits && first < map.inTree
      ? `${look.brief(first, end)} · fits ${count(Number(fits.sum(first, end)), "pod")}`
      : look.brief(first, end);
  const draw = () => {
    const plan = layout(map, domainsOf(map), box.clientWidth || 600, 420);
    const chosen = (at) => marked.has(map.nodes[at]);
    drawMap(
      canvas,
      map,
      plan,
      { ...look, brief },
      {
        dimmed: (at) => marked.size > 0 && !chosen(at) && plan.cell < 8,
        outlined: (at) => (chosen(at) ? "new" : null),
        fill: (at) => (chosen(at) ? "new-soft" : null),
      },
    );
  };
  requestAnimationFrame(draw);
  return card(title, box);
}
