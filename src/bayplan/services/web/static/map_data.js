// The map of the cluster: asked for once, then only what has changed since.

import { ask } from "./api.js";
import { count } from "./format.js";

const [MOST_NAMED, MOST_CAUSES] = [3, 5];

let known = null;

export async function askMap({ topology = "", requests = "", tolerate = "" } = {}) {
  const asked = `${topology} ${requests} ${tolerate}`;
  const since = known?.asked === asked ? known.map.version : "";
  const found = await ask("map", { topology, requests, tolerate, since });
  if (found.kind === "ClusterMapChanges") apply(known.map, found);
  else known = { asked, map: { ...found, changed: null } };
  return known.map;
}

// A map with the slots of a room, which has them in the order of the map's nodes.
export async function mapWith(room, asked = {}) {
  const map = await askMap(asked).catch(() => null);
  return map && room?.slots.length === map.nodes.length ? { ...map, ...room } : map;
}

function apply(map, changes) {
  const put = (column, values) => changes.at.forEach((at, number) => (column[at] = values[number]));
  for (const field of ["free", "total", "fragmentation"]) {
    for (const [resource, values] of Object.entries(changes[field] ?? {})) put(map[field][resource], values);
  }
  for (const field of ["report", "reportedAt", "closed"]) put(map[field], changes[field]);
  if (changes.slots) put(map.slots, changes.slots);
  map.closings = changes.closings;
  map.version = changes.version;
  map.clock = changes.clock;
  map.changed = changes.at;
}

// `NotReady`, `cordoned` and taints that close a node.
export const causesOf = (map, at) => map.closings[map.closed[at]];

// A sentence for each way in which nodes of a range are closed; `left` says what lies on them.
export function closedIn(map, { first, end }, left = () => "") {
  const found = map.closings.map(() => []);
  for (let at = first; at < end; at += 1) if (map.closed[at]) found[map.closed[at]].push(at);
  const sentences = found.flatMap((nodes, number) => {
    if (!nodes.length) return [];
    const names = nodes.slice(0, MOST_NAMED).map((at) => map.nodes[at]);
    const more = nodes.length > MOST_NAMED ? ` and ${nodes.length - MOST_NAMED} more` : "";
    const by = map.closings[number].join(", ");
    return [`${count(nodes.length, "node")} closed: ${by} (${names.join(", ")}${more})${left(nodes)}`];
  });
  const rest = sentences.length - MOST_CAUSES;
  return rest > 0 ? [...sentences.slice(0, MOST_CAUSES), `and ${rest} other cause${rest === 1 ? "" : "s"}`] : sentences;
}

export const reportOf = (map, at) => map.reports[map.report[at]];

// Seconds since a node's report was made, by the clock of the dump or simulation; -1 if that is unknown.
export function ageOf(map, at) {
  const now = map.clock ?? Date.now() / 1000;
  return map.reportedAt[at] < 0 ? -1 : Math.max(0, Math.round(now - map.reportedAt[at]));
}
