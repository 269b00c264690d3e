// Why pods wait: the whole queue by cause, and one pod, gang or workload with its shrinking bars, misses and remedies.

import { ask } from "./api.js";
import { card, h, nodeLink, path, podLink, table } from "./dom.js";
import { age, count, shortName } from "./format.js";
import { gangParts } from "./gang.js";

const SHOWN = 30;

export function queueScreen() {
  const element = h("div.why");
  const update = async () => {
    const queue = await ask("waiting");
    element.replaceChildren(h("h1", {}, "Why pods wait"), h("p.answer", { class: queue.causes.length ? "bad" : "good" }, queue.answer),
      ...queue.causes.map(cause), warnings(queue));
  };
  return { element, update };
}

function cause({ type, cause, count: number, pods, gangs, nodes }) {
  return h("section.card.cause", {}, h("h2", {}, h("span.number", {}, String(number)), cause), h("p.quiet", {}, type),
    gangs.length ? h("p", {}, "Gangs: ", list(gangs, (each) => podLink(each, "podgroup"))) : null,
    nodes.length ? h("p", {}, "Nodes: ", list(nodes, nodeLink)) : null,
    h("p", {}, "Pods: ", list(pods, (each) => podLink(each))));
}

function list(items, link) {
  const rest = items.length - SHOWN;
  return [items.slice(0, SHOWN).flatMap((each, at) => [at ? ", " : "", link(each)]), rest > 0 ? ` and ${rest} more` : ""];
}

export function whyScreen({ parts: [namespace, kind, name] }) {
  const element = h("div.why");
  const update = async () => {
    const preempt = new URLSearchParams(location.search).get("preempt");
    const found = await ask(path("why", namespace, kind, name).slice(1), { preempt });
    element.replaceChildren(...explanation(found, `${namespace}/${name}`, kind));
  };
  return { element, update };
}

function explanation(found, key, kind) {
  const head = [h("h1", {}, h("span.quiet", {}, `Why ${kind} `), key)];
  if (found.kind === "WorkloadExplanation") {
    return [...head, answer(found.answer, found.fits), ...found.gangs.flatMap(gangParts), ...found.items.slice(0, 20).flatMap((each) => outcome(each)), warnings(found)];
  }
  if (found.kind === "GangExplanation") return [...head, ...gangParts(found.now), preemption(found), warnings(found)];
  return [...head, ...standing(found), preemption(found), warnings(found)];
}

function standing(pod) {
  const facts = [["phase", pod.phase], ["reason", pod.reason], ["waiting", pod.waitingSeconds === null ? null : age(pod.waitingSeconds)], ["path", pod.path]];
  const zones = pod.zones ? Object.entries(pod.zones).map(([container, each]) => `${container}: NUMA ${each.join(", ")}`).join("; ") : null;
  return [h("ul.facts", {}, facts.filter(([, value]) => value).map(([label, value]) => h("li", {}, `${label} `, h("b", {}, value))),
    pod.node ? h("li", {}, "node ", nodeLink(pod.node)) : null, zones ? h("li", {}, zones) : null,
    pod.gang ? h("li", {}, "gang ", h("a", { href: path("gang", ...pod.gang.split("/")) }, pod.gang)) : null),
    card("Asks for", h("p", {}, amounts(pod.asksFor.total), h("span.quiet", {}, ` · ${pod.asksFor.qosClass}`))),
    ...(!pod.now ? [] : pod.gang ? gangParts(pod.now) : outcome(pod.now))];
}

export function outcome(now) {
  const parts = [answer(now.answer, now.fits)];
  if (now.fits) parts.push(card("Best nodes", ranking(now)));
  if (now.refusal) parts.push(...refusal(now.refusal));
  return parts;
}

export function answer(text, good) {
  return h("p.answer", { class: good ? "good" : "bad" }, text);
}

function ranking(now) {
  const where = (containers) => containers.map((each) => (each.zones ? `${each.name}: NUMA ${each.zones.join(", ")}` : "")).filter(Boolean).join("; ");
  return table(["node", "#score", "zones"], now.ranking.map((each) => [nodeLink(each.node), String(each.score), where(each.containers)]), "The best nodes for this pod");
}

function refusal(no) {
  return [card("Where nodes fall away", bars(no.nodes, no.stages)),
    no.nearest.length ? card("Nearest misses", table(["node", "zone", "short of", "#has", "#needs", "held by"], no.nearest.map((miss) => [nodeLink(miss.node), miss.zone === null ? "" : String(miss.zone),
      miss.resource ? shortName(miss.resource) : miss.reason ?? "", miss.have ?? "", miss.want ?? "", miss.heldBy ? [podLink(miss.heldBy.pod), ` ${miss.heldBy.amount}`] : ""]), "Nodes that almost fit")) : "",
    no.wouldScheduleIf.length ? card("Would schedule now if", h("ul", {}, no.wouldScheduleIf.map((each) => h("li", {}, each.change)))) : "",
    h("p", {}, h("a", { href: `${location.pathname}?preempt=true` }, "Which pods would be evicted for it?"))];
}

// The shrinking bars: how many nodes are left after each step, and what became of the others.
export function bars(nodes, stages) {
  const rows = [{ passed: "all nodes", left: nodes, lost: 0, detail: "" }, ...stages];
  return h("ol.bars", {}, rows.map((stage) => h("li", {},
    h("span.step", {}, stage.passed), h("span.track", {}, h("i", { class: stage.left ? null : "none", style: { width: `${nodes ? Math.max(0.4, (100 * stage.left) / nodes) : 0}%` } }), h("b", {}, stage.left.toLocaleString("en"))),
    h("span.detail", {}, stage.lost ? `${stage.lost.toLocaleString("en")} ${stage.detail}` : ""))));
}

export function preemption(found) {
  const plan = found.preemption;
  if (!plan) return "";
  if (!plan.victims.length) return card("Preemption", h("p", {}, plan.reason ?? "No pod would have to leave."));
  return card(`Preemption would evict ${count(plan.victims.length, "pod")}`, table(["pod", "#priority", "frees"], plan.victims.map((each) => [podLink(each.pod), String(each.priority), each.frees]), "Pods that would be evicted; nothing is evicted now"));
}

export function amounts(total) {
  return Object.entries(total).map(([name, amount]) => `${shortName(name)} ${amount}`).join(" · ");
}

export function warnings(found) {
  return found.warnings?.length ? h("details.warnings", {}, h("summary", {}, count(found.warnings.length, "warning")), h("ul", {}, found.warnings.map((each) => h("li", {}, each)))) : "";
}
