// What if: paste a manifest, see where it would go now, what would make it fit, and who would be evicted.

import { whatIf } from "./api.js";
import { card, h } from "./dom.js";
import { count } from "./format.js";
import { gangParts } from "./gang.js";
import { answer, outcome, preemption, warnings } from "./why.js";

const EXAMPLE = `apiVersion: v1
kind: Pod
metadata: {name: example, namespace: default}
spec:
  containers:
  - name: main
    image: app
    resources:
      requests: {cpu: "8", memory: 16Gi}
      limits: {cpu: "8", memory: 16Gi}
`;
const SHOWN = 20;

export function whatIfScreen() {
  const manifest = h("textarea", { id: "manifest", rows: 14, spellcheck: "false" });
  manifest.value = sessionStorage.getItem("manifest") ?? EXAMPLE;
  const result = h("div", { "aria-live": "polite" });
  const button = h("button.main", { type: "submit" }, "Where would it go?");

  async function submit(event) {
    event.preventDefault();
    sessionStorage.setItem("manifest", manifest.value);
    button.disabled = true;
    try {
      result.replaceChildren(...drawn(await whatIf(manifest.value)));
    } catch (error) {
      result.replaceChildren(card("The manifest cannot be used", h("p.answer.bad", {}, error.message)));
    } finally {
      button.disabled = false;
    }
  }

  const form = h("form.card", { onsubmit: submit }, h("label", { for: "manifest" }, "Pods, PodGroups, Jobs, Deployments and other workloads, as YAML or JSON. Nothing is created."), manifest, h("p", {}, button));
  const element = h("div.what-if", {}, h("h1", {}, "What if"), form, result);
  return { element, update: async () => {} };
}

function drawn(found) {
  const pods = found.items;
  const rest = pods.length - SHOWN;
  return [...found.workloads.map((each) => answer(each.answer, each.fits)),
    ...found.gangs.flatMap((each) => gangParts(each)),
    ...pods.slice(0, SHOWN).flatMap((each) => [...outcome(each), preemption({ preemption: found.preemption[each.pod] })]),
    rest > 0 ? h("p.quiet", {}, `and ${count(rest, "pod")} more`) : "", warnings(found)];
}
