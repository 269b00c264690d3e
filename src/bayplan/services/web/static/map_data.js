// The map of the cluster: asked for once, then only what has changed since.

import { ask } from "./api.js";

let known = null;

export async function askMap({ topology = "", requests = "" } = {}) {
  const asked = `${topology} ${requests}`;
  const since = known?.asked === asked ? known.map.version : "";
  const found = await ask("map", { topology, requests, since });
  if (found.kind === "ClusterMapChanges") apply(known.map, found);
  else known = { asked, map: { ...found, changed: null } };
  return known.map;
}

function apply(map, changes) {
  const put = (column, values) => changes.at.forEach((at, number) => (column[at] = values[number]));
  for (const field of ["free", "total", "fragmentation"]) {
    for (const [resource, values] of Object.entries(changes[field] ?? {})) put(map[field][resource], values);
  }
  for (const field of ["report", "reportedAt", "cordoned"]) put(map[field], changes[field]);
  if (changes.slots) put(map.slots, changes.slots);
  map.version = changes.version;
  map.clock = changes.clock;
  map.changed = changes.at;
}

export const reportOf = (map, at) => map.reports[map.report[at]];

// Seconds since a node's report was made, by the clock of the cluster; -1 if that is unknown.
export function ageOf(map, at) {
  const now = map.clock ?? Date.now() / 1000;
  return map.reportedAt[at] < 0 ? -1 : Math.max(0, Math.round(now - map.reportedAt[at]));
}
