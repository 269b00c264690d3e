// Distances between the members of a gang: edges of the tree between two of them, 0 on one node, 2 in one rack, and so on.

import { h } from "./dom.js";

const MOST = 24;

export function matrix(now, seats) {
  const shown = seats.slice(0, MOST);
  const paths = shown.map((each) => [...each.domain, each.node]);
  const most = 2 * (now.levels.length + 1);
  const label = (each, at) => String(each.rank ?? at);
  const rows = shown.map((each, at) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", title: each.pod }, label(each, at)),
      paths.map((other) => {
        const far = between(paths[at], other);
        return h(`td.far-${Math.round((4 * far) / most)}`, {}, String(far));
      }),
    ),
  );
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": "Distance matrix" },
    h(
      "table.matrix",
      {},
      h(
        "caption.quiet",
        {},
        `Edges of the tree between ranks${seats.length > shown.length ? `, the first ${shown.length}` : ""}`,
      ),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("td"),
          shown.map((each, at) => h("th", { scope: "col" }, label(each, at))),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

function between(one, other) {
  const common = one.findIndex((part, at) => part !== other[at]);
  return common < 0 ? 0 : 2 * (one.length - common);
}
