// Why pods wait: the whole queue by cause, and one pod, gang or workload with its shrinking bars, misses and remedies.

import { ask } from "./api.js";
import { answer, bars } from "./answer.js";
import { card, facts, h, nodeLink, pair, path, podLink, table } from "./dom.js";
import { age, amounts, count, shortName } from "./format.js";
import { gangParts, mapsOf } from "./gang.js";

const SHOWN = 30;
const SHOWN_PODS = 20;

export function queueScreen() {
  const element = h("div.why");
  const update = async () => {
    const queue = await ask("waiting");
    element.replaceChildren(
      h("h1", {}, "Why pods wait"),
      answer(queue.answer, !queue.causes.length),
      ...queue.causes.map(cause),
      warnings(queue),
    );
  };
  return { element, update };
}

function cause({ type, cause, count: number, pods, gangs, nodes }) {
  return h(
    "section.card.cause",
    {},
    h("h2", {}, h("span.number", {}, String(number)), cause),
    h("p.quiet", {}, type),
    gangs.length
      ? h(
          "p",
          {},
          "Gangs: ",
          list(gangs, (each) => podLink(each, "podgroup")),
        )
      : null,
    nodes.length ? h("p", {}, "Nodes: ", list(nodes, nodeLink)) : null,
    h(
      "p",
      {},
      "Pods: ",
      list(pods, (each) => podLink(each)),
    ),
  );
}

function list(items, link) {
  const rest = items.length - SHOWN;
  return [
    items.slice(0, SHOWN).flatMap((each, at) => [at ? ", " : "", link(each)]),
    rest > 0 ? ` and ${rest} more` : "",
  ];
}

export function whyScreen({ parts: [namespace, kind, name] }) {
  const element = h("div.why");
  const update = async () => {
    const preempt = new URLSearchParams(location.search).get("preempt");
    const found = await ask(path("why", namespace, kind, name).slice(1), { preempt });
    const gangs = gangsOf(found);
    const maps = await mapsOf(gangs, found.rooms);
    element.replaceChildren(
      h("h1", {}, h("span.quiet", {}, `Why ${kind} `), `${namespace}/${name}`),
      ...explanation(found, maps),
      preemption(found),
      warnings(found),
    );
  };
  return { element, update };
}

function gangsOf(found) {
  if (found.kind === "WorkloadExplanation") return found.gangs;
  return found.now && (found.kind === "GangExplanation" || found.gang) ? [found.now] : [];
}

function explanation(found, maps) {
  if (found.kind === "GangExplanation") return gangParts(found.now, maps[0]);
  if (found.kind !== "WorkloadExplanation") return standing(found, maps[0]);
  const rest = found.items.length - SHOWN_PODS;
  return [
    answer(found.answer, found.fits),
    ...found.gangs.flatMap((each, at) => gangParts(each, maps[at], { created: false })),
    ...found.items.slice(0, SHOWN_PODS).flatMap(outcome),
    rest > 0 ? h("p.quiet", {}, `and ${count(rest, "pod")} more`) : "",
  ];
}

function standing(pod, map) {
  const zones = pod.zones
    ? Object.entries(pod.zones)
        .map(([container, each]) => `${container}: NUMA ${each.join(", ")}`)
        .join("; ")
    : null;
  const head = facts(
    [
      ["phase", pod.phase],
      ["reason", pod.reason],
      ["waiting", pod.waitingSeconds === null ? null : age(pod.waitingSeconds)],
      ["path", pod.path],
    ],
    pod.node ? h("li", {}, "node ", nodeLink(pod.node)) : null,
    zones ? h("li", {}, zones) : null,
    pod.gang ? h("li", {}, "gang ", h("a", { href: path("gang", ...pod.gang.split("/")) }, pod.gang)) : null,
    h("li", {}, "asks for ", h("b", {}, amounts(pod.asksFor.total)), ` · ${pod.asksFor.qosClass}`),
  );
  if (!pod.now) return [answer(pod.answer, true), head];
  const victims = pod.now.refusal
    ? h("p", {}, h("a", { href: `${location.pathname}?preempt=true` }, "Which pods would be evicted for it?"))
    : "";
  return [head, ...(pod.gang ? gangParts(pod.now, map) : outcome(pod.now)), victims];
}

export function outcome(now) {
  const parts = [answer(now.answer, now.fits)];
  if (now.fits) parts.push(card("Best nodes", ranking(now)));
  if (now.refusal) parts.push(...refusal(now.refusal));
  return parts;
}

function ranking(now) {
  const where = (containers) =>
    containers
      .map((each) => (each.zones ? `${each.name}: NUMA ${each.zones.join(", ")}` : ""))
      .filter(Boolean)
      .join("; ");
  return table(
    ["node", "#score", "zones"],
    now.ranking.map((each) => [nodeLink(each.node), String(each.score), where(each.containers)]),
    "The best nodes for this pod",
  );
}

function refusal(no) {
  const misses = no.nearest.map((miss) => [
    nodeLink(miss.node),
    miss.zone === null ? "" : String(miss.zone),
    miss.resource ? shortName(miss.resource) : (miss.reason ?? ""),
    miss.have ?? "",
    miss.want ?? "",
    miss.heldBy ? [podLink(miss.heldBy.pod), ` ${miss.heldBy.amount}`] : "",
  ]);
  return [
    pair(
      card("Where nodes fall away", bars(no.nodes, no.stages)),
      misses.length
        ? card(
            "Nearest misses",
            table(["node", "zone", "short of", "#has", "#needs", "held by"], misses, "Nodes that almost fit"),
          )
        : null,
    ),
    no.wouldScheduleIf.length
      ? card(
          "Would schedule now if",
          h(
            "ul",
            {},
            no.wouldScheduleIf.map((each) => h("li", {}, each.change)),
          ),
        )
      : "",
  ];
}

export function preemption(found) {
  const plan = found.preemption;
  if (!plan) return "";
  if (!plan.victims.length) {
    const text = plan.reason ? `No pod would be evicted: ${plan.reason}.` : "No pod would have to leave.";
    return card("Preemption", h("p", {}, text));
  }
  return card(
    `Preemption would evict ${count(plan.victims.length, "pod")}`,
    table(
      ["pod", "#priority", "frees"],
      plan.victims.map((each) => [podLink(each.pod), String(each.priority), each.frees]),
      "Pods that would be evicted; nothing is evicted now",
    ),
  );
}

export function warnings(found) {
  return found.warnings?.length
    ? h(
        "details.warnings",
        {},
        h("summary", {}, count(found.warnings.length, "warning")),
        h(
          "ul",
          {},
          found.warnings.map((each) => h("li", {}, each)),
        ),
      )
    : "";
}
