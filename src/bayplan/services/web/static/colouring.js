// What a node's box says: a number, a shade, and a sentence, by what the viewer asked to see.

import { age, amount, brief, shortName } from "./format.js";
import { ageOf, reportOf } from "./map_data.js";

// What closed nodes have is of no use to new pods, so it has no colour and is in no sum.

export const BY = [
  ["free", "free amount"],
  ["slots", "slots for a pod"],
  ["fragmentation", "NUMA fragmentation"],
  ["age", "report age"],
];

// Functions of a node's position in the map, and of a range of positions; `without` says what a grey box means.
export function colouring(map, by, resource) {
  const unit = map.resources.find((each) => each.name === resource)?.unit ?? "count";
  const [free, total] = [map.free[resource] ?? [], map.total[resource] ?? []];
  const open = (first, end) => sum(free, first, end, map.closed);
  if (by === "slots" && map.slots) return bySlots(map);
  if (by === "fragmentation") return byFragmentation(map, resource);
  if (by === "age") return byAge(map);
  return {
    number: (at) => (total[at] && !map.closed[at] ? brief(free[at], unit) : ""),
    shade: (at) => (!total[at] || map.closed[at] ? null : shadeOf(free[at], total[at])),
    text: (at) =>
      total[at]
        ? `${amount(free[at], unit)} of ${amount(total[at], unit)} ${shortName(resource)} free`
        : `no ${shortName(resource)}`,
    sum: (first, end) => `${amount(open(first, end), unit)} of ${amount(sum(total, first, end), unit)}`,
    brief: (first, end) => `${amount(open(first, end), unit)} free`,
    legend: [
      ["free-0", "nothing free"],
      ["free-1", "less than half"],
      ["free-2", "half or more"],
      ["free-3", "all free"],
    ],
    without: () => `no ${shortName(resource)}`,
    left: (nodes) => {
      const unused = nodes.reduce((found, at) => found + free[at], 0);
      return unused > 0 ? `: ${amount(unused, unit)} free ${shortName(resource)} not counted` : "";
    },
  };
}

const shadeOf = (value, most) => `free-${value <= 0 ? 0 : value >= most ? 3 : value * 2 >= most ? 2 : 1}`;

function bySlots(map) {
  const most = map.slots.reduce((a, b) => Math.max(a, b), 1);
  return {
    number: (at) => (map.closed[at] ? "" : String(map.slots[at])),
    shade: (at) => (map.closed[at] ? null : shadeOf(map.slots[at], most)),
    text: (at) => `room for ${map.slots[at]} such pods`,
    sum: (first, end) => String(sum(map.slots, first, end)),
    brief: (first, end) => `${sum(map.slots, first, end)} slots`,
    legend: [
      ["free-0", "no slot"],
      ["free-1", "fewer than half the most"],
      ["free-2", "half or more"],
      ["free-3", `the most, ${most}`],
    ],
  };
}

function byFragmentation(map, resource) {
  const [shares, name] = [map.fragmentation[resource] ?? [], shortName(resource)];
  const without = (at) => {
    if (!map.total[resource]?.[at]) return `no ${name}`;
    if (map.free[resource][at] <= 0) return `no ${name} free`;
    return reportOf(map, at) === "fresh" ? "not aligned to NUMA zones" : "NUMA zones unknown";
  };
  return {
    number: (at) => (shares[at] < 0 ? "" : String(shares[at])),
    shade: (at) => (shares[at] < 0 ? null : `use-${Math.min(4, Math.ceil(shares[at] / 25))}`),
    text: (at) =>
      shares[at] < 0 ? without(at) : `${shares[at]} % of free ${name} out of reach of one aligned pod`,
    sum: (first, end) => mean(shares, first, end),
    brief: (first, end) => mean(shares, first, end),
    legend: [
      ["use-0", "0 %"],
      ["use-1", "up to 25 %"],
      ["use-2", "50 %"],
      ["use-3", "75 %"],
      ["use-4", "100 %"],
    ],
    without,
  };
}

function byAge(map) {
  const ages = map.nodes.map((_, at) => ageOf(map, at));
  const step = (seconds) => (seconds < 60 ? 0 : seconds < 300 ? 1 : seconds < 3600 ? 2 : seconds < 86400 ? 3 : 4);
  const oldest = (first, end) => {
    const most = ages.slice(first, end).reduce((a, b) => Math.max(a, b), -1);
    return most < 0 ? "no report" : `oldest ${age(most)}`;
  };
  return {
    number: (at) => (ages[at] < 0 ? "" : age(ages[at])),
    shade: (at) => (ages[at] < 0 ? null : `use-${step(ages[at])}`),
    text: (at) => `report ${reportOf(map, at)}${ages[at] < 0 ? "" : `, ${age(ages[at])} old`}`,
    sum: oldest,
    brief: oldest,
    legend: [
      ["use-0", "below a minute"],
      ["use-1", "below 5 minutes"],
      ["use-2", "below an hour"],
      ["use-3", "below a day"],
      ["use-4", "older"],
    ],
    without: () => "no report, or of unknown age",
  };
}

export function sum(column, first, end, leftOut = null) {
  let found = 0;
  for (let at = first; at < end; at += 1) if (!leftOut?.[at]) found += column[at];
  return found;
}

function mean(shares, first, end) {
  let [found, known] = [0, 0];
  for (let at = first; at < end; at += 1) if (shares[at] >= 0) [found, known] = [found + shares[at], known + 1];
  return known ? `${Math.round(found / known)} %` : "-";
}
