// One node: packages, NUMA zones, what is free in them, CPUs and devices as squares with their owners, distances.

import { ask } from "./api.js";
import { card, facts, h, pair, path, podLink, table, wholes } from "./dom.js";
import { age, amounts, quantity, readable, shortName } from "./format.js";

const MOST_SQUARES = 128;
const PARTIES = 6;

export function nodeScreen({ parts: [name] }) {
  const element = h("div.node");
  const update = async () => element.replaceChildren(...drawn(await ask(path("nodes", name).slice(1))));
  return { element, update };
}

function drawn(node) {
  const { summary } = node;
  const pinned = [...new Set(node.zones.flatMap((zone) => zone.pods.map((each) => each.pod)))];
  const owners = new Map(pinned.map((pod, at) => [pod, at % PARTIES]));
  const report = `${summary.report}${summary.reportAgeSeconds === null ? "" : `, ${age(summary.reportAgeSeconds)} old`}`;
  const known = node.zones.some((zone) => zone.distances.some((each) => each !== null));
  return [
    h("h1", {}, h("span.quiet", {}, "Node "), node.node),
    facts(
      [
        ["policy", node.policy],
        ["scope", node.scope],
        ["CPU manager", node.cpuManager],
        ["memory manager", node.memoryManager],
        ["report", report],
      ],
      summary.status === "Ready" ? null : h("li.bad", {}, summary.status),
      summary.taints.map((each) => h("li", {}, `taint ${each}`)),
    ),
    h("ul.facts", {}, places(node.domains), room(summary)),
    ...(node.problem ? [card(null, h("p", {}, node.problem), free(summary))] : [legend(), packages(node, owners)]),
    pair(
      card("Pods", pods(node, owners)),
      known ? card("Distances", distances(node)) : null,
      card("Labels", table(["label", "value"], Object.entries(node.labels), "Labels of this node")),
    ),
    refusals(node),
  ];
}

const legend = () =>
  h(
    "ul.legend.squared",
    { "aria-label": "Legend" },
    h("li", {}, h("i.party-0"), "in use, in the colour of the pod"),
    h("li", {}, h("i.taken"), "in use, owner not reported"),
    h("li", {}, h("i.free"), "free"),
  );

// What a node without NUMA zones has as a whole.
function free(summary) {
  const rows = Object.entries(summary.allocatable).map(([name, all]) => [
    name,
    readable(summary.free[name]),
    readable(all),
  ]);
  return table(["resource", "#free", "#allocatable"], rows, "Amounts of this node");
}

// One line for each path; with several Topologies, their names before it.
function places(domains) {
  const words = (each) => JSON.stringify([each.levels, each.path]);
  const different = new Map(domains.map((each) => [words(each), each]));
  return [...different].map(([told, each]) => {
    const names = domains.filter((other) => words(other) === told).map((other) => other.topology);
    return place(each, domains.length > 1 ? `${names.join(", ")}: ` : "");
  });
}

// Block and rack, each a way back to its part of the map.
function place({ topology, levels, path: names }, lead) {
  const link = (name, at) => [
    at ? " › " : "",
    `${levels[at]} `,
    h("a", { href: `/?${new URLSearchParams({ topology, in: names.slice(0, at + 1).join("/") })}` }, name),
  ];
  return h("li", {}, lead, names.map(link));
}

function room({ fragmentation, largestAligned }) {
  const percent = ([name, share]) => `${shortName(name)} ${Math.round(100 * share)} %`;
  const shares = Object.entries(fragmentation).map(percent).join(" · ");
  return [
    largestAligned
      ? h(
          "li",
          {},
          "largest aligned pod ",
          h("b", {}, amounts(largestAligned.amounts)),
          ` in NUMA ${largestAligned.zone}`,
        )
      : null,
    shares ? h("li", {}, "fragmentation ", h("b", {}, shares)) : null,
  ];
}

function refusals({ refusedPods, summary }) {
  const number = Object.values(summary.refused).reduce((one, other) => one + other, 0);
  if (!number) return "";
  const rows = refusedPods.map((each) => [podLink(each.pod), h("span.refused", {}, each.reason), each.created ?? ""]);
  return card(
    "Refused by this kubelet",
    table(
      ["pod", "reason", "created"],
      rows,
      number > rows.length ? `The latest ${rows.length} of ${number}` : "The latest first",
    ),
  );
}

function packages(node, owners) {
  const names = [...new Set(node.zones.map((zone) => zone.package))];
  return h(
    "div.packages",
    {},
    names.map((name) =>
      h(
        "section.package",
        {},
        name ? h("h2", {}, name) : null,
        h(
          "div.zones",
          {},
          node.zones.filter((zone) => zone.package === name).map((zone) => zoneBox(zone, owners)),
        ),
      ),
    ),
  );
}

function zoneBox(zone, owners) {
  const hidden = amounts(zone.ownersNotReported);
  return h(
    "section.zone",
    {},
    h("h3", {}, `NUMA ${zone.id}`),
    h(
      "div.resources",
      {},
      Object.entries(zone.resources).map(([resource, amounts]) => resourceRow(resource, amounts, zone.pods, owners)),
    ),
    zone.pods.length || hidden
      ? h(
          "ul.pods",
          {},
          zone.pods.map((each) =>
            h(
              "li",
              {},
              h(`i.party-${owners.get(each.pod)}`),
              podLink(each.pod),
              each.zones.length > 1 ? h("span.quiet", {}, ` zones ${each.zones.join(", ")}`) : null,
            ),
          ),
          hidden ? h("li.quiet", { title: hidden }, h("i.taken"), "owner not reported") : null,
        )
      : null,
  );
}

function resourceRow(resource, { available, allocatable }, pods, owners) {
  const [free, total] = [quantity(available), quantity(allocatable)];
  const whole = !/[A-Za-z]/.test(available + allocatable) && total <= MOST_SQUARES;
  const label = `${available} of ${allocatable} free`;
  return h(
    "div.resource",
    {},
    h(
      "div.label",
      {},
      h("span", {}, shortName(resource)),
      h("span.quiet.whole", {}, h("b", {}, available), ` of ${allocatable} free`),
    ),
    whole
      ? squares(resource, free, total, pods, owners, label)
      : h(
          "div.bar",
          { role: "img", "aria-label": `${resource}: ${label}` },
          parts(resource, total - free, pods, owners).map(([owner, pod, share]) =>
            h(`i.${owner}`, { title: pod, style: { width: `${total ? (100 * share) / total : 0}%` } }),
          ),
        ),
  );
}

const NOT_REPORTED = ["taken", "in use, owner not reported"];

// What is in use as parts of a bar: the share of each pod as far as it is known, then the rest.
function parts(resource, used, pods, owners) {
  let rest = Math.max(0, used);
  const found = [];
  for (const pod of pods) {
    const share = Math.min(rest, quantity(pod.amounts[resource]) / pod.zones.length);
    if (share > 0) found.push([`party-${owners.get(pod.pod)}`, pod.pod, share]);
    rest -= share;
  }
  return rest > 0 ? [...found, [...NOT_REPORTED, rest]] : found;
}

// One square per CPU or device: taken ones first, with the colour of their owner; the report names amounts, not numbers.
function squares(resource, free, total, pods, owners, label) {
  const taken = [];
  for (const pod of pods) {
    const share = Math.round(quantity(pod.amounts[resource]) / pod.zones.length);
    for (let at = 0; at < share; at += 1) taken.push([`party-${owners.get(pod.pod)}`, pod.pod]);
  }
  const number = Math.floor(total);
  const used = Math.max(0, number - Math.floor(free));
  return h(
    "div.squares",
    { role: "img", "aria-label": `${resource}: ${label}` },
    Array.from({ length: number }, (_, at) => {
      const [owner, pod] = at < used ? (taken[at] ?? NOT_REPORTED) : ["free", "free"];
      return h(`i.${owner}`, { title: pod });
    }),
  );
}

function distances(node) {
  const ids = node.zones.map((zone) => String(zone.id));
  return table(
    ["from \\ to", ...ids.map((each) => `#${each}`)],
    node.zones.map((zone) => [
      h("b.whole", {}, `NUMA ${zone.id}`),
      ...zone.distances.map((each) =>
        h(`span.distance${each === 10 ? ".near" : ""}`, {}, each === null ? "?" : String(each)),
      ),
    ]),
    "Distances between NUMA zones, as the firmware gives them",
  );
}

function pods(node, owners) {
  const asked = (pod) => wholes(amounts(node.podAmounts[pod] ?? {}));
  // Containers of one pod may be in different zones.
  const entries = node.zones.flatMap((zone) => zone.pods);
  const zonesOf = (pod) => [...new Set(entries.filter((each) => each.pod === pod).flatMap(({ zones }) => zones))];
  const rows = [...owners].map(([pod, party]) => [
    h("span", {}, h(`i.dot.party-${party}`), podLink(pod)),
    zonesOf(pod)
      .toSorted((one, other) => one - other)
      .join(", "),
    asked(pod),
  ]);
  node.podsWithoutReportedZone.forEach((each) => rows.push([podLink(each), h("span.whole", {}, "not reported"), asked(each)]));
  node.podsNotPinned.forEach((each) => rows.push([podLink(each), h("span.whole", {}, "not pinned"), asked(each)]));
  return rows.length ? table(["pod", "zones", "amounts"], rows, "Pods on this node") : h("p.quiet", {}, "No pods.");
}
