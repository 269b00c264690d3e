// What if: paste a manifest, see where it would go now, what would make it fit, and who would be evicted.

import { whatIf } from "./api.js";
import { answer } from "./answer.js";
import { card, field, h, select } from "./dom.js";
import { count } from "./format.js";
import { gangParts, mapsOf } from "./gang.js";
import { mapWith } from "./map_data.js";
import { picture } from "./picture.js";
import { outcome, preemption, warnings } from "./why.js";

const RESOURCES = `resources:
      requests: {cpu: "8", memory: 16Gi}
      limits: {cpu: "8", memory: 16Gi}`;
const EXAMPLES = {
  "a pod": `apiVersion: v1
kind: Pod
metadata: {name: example, namespace: default}
spec:
  containers:
  - name: main
    image: app
    ${RESOURCES}
`,
  "a Job": `apiVersion: batch/v1
kind: Job
metadata: {name: example, namespace: default}
spec:
  parallelism: 4
  completions: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: app
        ${RESOURCES.replaceAll("\n", "\n    ")}
`,
  "a gang": `apiVersion: bayplan.io/v1alpha1
kind: PodGroup
metadata: {name: example, namespace: default}
spec:
  size: 8
  pod:
    spec:
      containers:
      - name: main
        image: app
        ${RESOURCES.replaceAll("\n", "\n    ")}
`,
};
const SHOWN = 20;
// How the cluster could be different: parameters of the question.
const ASSUMED = [
  ["addNodes", "Add nodes", "4"],
  ["like", "like node", "node-1"],
  ["withoutNode", "Without nodes", "node-1, node-2"],
  ["withoutTaint", "Without taints", "nvidia.com/gpu"],
  ["uncordon", "Uncordon nodes", "node-1"],
];

export function whatIfScreen() {
  const manifest = h("textarea", { id: "manifest", rows: 18, spellcheck: "false" });
  manifest.value = sessionStorage.getItem("manifest") ?? EXAMPLES["a pod"];
  const result = h(
    "div.result",
    { "aria-live": "polite" },
    h(
      "p.quiet.empty",
      {},
      "The answer appears here: where each pod would go, or what keeps it out and what would help.",
    ),
  );
  const button = h("button.main", { type: "submit" }, "Where would it go?");
  const file = h("input", {
    type: "file",
    accept: ".yaml,.yml,.json",
    onchange: async () => (manifest.value = await file.files[0].text()),
  });
  const example = select(
    [["", "choose"], ...Object.keys(EXAMPLES).map((each) => [each, each])],
    "",
    (value) => (manifest.value = EXAMPLES[value] ?? manifest.value),
  );

  const assumed = ASSUMED.map(([name, label, placeholder]) => {
    const type = name === "addNodes" ? { type: "number", min: 1 } : { size: 18 };
    return field(label, h("input", { name, placeholder, spellcheck: "false", autocomplete: "off", ...type }));
  });

  async function submit(event) {
    event.preventDefault();
    sessionStorage.setItem("manifest", manifest.value);
    button.disabled = true;
    try {
      const found = await whatIf(manifest.value, Object.fromEntries(new FormData(form)));
      // The map shows the cluster as it is.
      const maps = found.assuming ? [] : await mapsOf(found.gangs, found.rooms);
      const map = found.assuming || !found.items.length ? null : await mapWith(found.rooms.at(-1));
      result.replaceChildren(...drawn(found, maps, map));
    } catch (error) {
      result.replaceChildren(card("There is no answer", h("p.answer.bad", {}, error.message)));
    } finally {
      button.disabled = false;
    }
  }

  const form = h(
    "form.card",
    {
      onsubmit: submit,
      onkeydown: (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(button);
      },
    },
    h(
      "label",
      { for: "manifest" },
      "Pods, PodGroups, Jobs, Deployments and other workloads, as YAML or JSON. Nothing is created.",
    ),
    manifest,
    h("div.controls", {}, field("Example", example), field("File", file)),
    h("details", {}, h("summary", {}, "In a cluster that differs from this one"), h("div.controls", {}, assumed)),
    h("p", {}, button),
  );
  const element = h("div.what-if", {}, h("h1", {}, "What if"), h("div.sides", {}, form, result));
  return { element, update: async () => {} };
}

function drawn(found, maps, map) {
  const pods = found.items;
  const rest = pods.length - SHOWN;
  const nodes = pods
    .filter((each) => each.fits)
    .map((each) => each.ranking[0]?.node)
    .filter(Boolean);
  return [
    found.assuming ? h("p.assuming", {}, `Assuming: ${found.assuming.join("; ")}`) : "",
    ...found.workloads.map((each) => answer(each.answer, each.fits)),
    found.gangs.length > 1
      ? answer(
          found.answer,
          found.gangs.every((each) => each.fits),
        )
      : "",
    ...found.gangs.flatMap((each, at) => [
      ...gangParts(each, maps[at], { created: false }),
      preemption({ preemption: found.preemption[each.gang] }),
    ]),
    map && (nodes.length || map.slots)
      ? picture(nodes.length ? "Where pods would go" : "Room for such pods", map, nodes)
      : "",
    ...pods
      .slice(0, SHOWN)
      .flatMap((each) => [...outcome(each), preemption({ preemption: found.preemption[each.pod] })]),
    rest > 0 ? h("p.quiet", {}, `and ${count(rest, "pod")} more`) : "",
    warnings(found),
  ];
}
