// The table of nodes below the map: status, what is free, the largest aligned pod; sorted by a click on a column.

import { h, nodeLink, sortable, wholes } from "./dom.js";
import { amounts, quantity, readable, shortName } from "./format.js";

// A larger part of the cluster is shown by its domains.
export const MOST_LISTED = 500;

// `nodes` are lines of `bayplan nodes`. `more` has what boxes are coloured by: a title, and a node's text and number.
export function nodeTable({ items }, { map, scope, resource, more, order }) {
  const resources = map.resources.filter(({ name }) => items.some((each) => each.allocatable[name]));
  const free = ({ free: left, allocatable }, { name }) =>
    allocatable[name] ? `${readable(left[name])} of ${readable(allocatable[name])}` : "–";
  const rows = items.map((node) => ({
    cells: [
      nodeLink(node.node),
      h("span", { class: node.status === "Ready" ? null : "refused", title: node.taints.join("\n") }, node.status),
      ...more.map(({ text }) => text(node.node)),
      ...resources.map((each) => free(node, each)),
      node.largestAligned ? wholes(amounts(node.largestAligned.amounts)) : "–",
      node.report,
    ],
    keys: [
      node.node,
      node.status,
      ...more.map(({ value }) => value(node.node)),
      ...resources.map(({ name }) => quantity(node.free[name])),
      quantity(node.largestAligned?.amounts[resource]),
      node.report,
    ],
  }));
  const columns = [
    "node",
    "status",
    ...more.map(({ title }) => `#${title}`),
    ...resources.map(({ name }) => `#free ${shortName(name)}`),
    "largest aligned pod",
    "report",
  ];
  return sortable(columns, rows, `Every node of ${scope.path.join(" › ") || map.topology || "the cluster"}`, order);
}
