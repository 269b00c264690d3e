// Parts of every answer: the sentence, and the shrinking bars.

import { h } from "./dom.js";

export function answer(text, good) {
  return h("p.answer", { class: good ? "good" : "bad" }, text);
}

// How many nodes are left after each step, and what became of the others.
export function bars(nodes, stages) {
  const rows = [{ passed: "all nodes", left: nodes, lost: 0, detail: "" }, ...stages];
  return h(
    "ol.bars",
    {},
    rows.map((stage) =>
      h(
        "li",
        {},
        h("span.step", {}, stage.passed),
        h(
          "span.track",
          {},
          h("i", {
            class: stage.left ? null : "none",
            style: { width: `calc((100% - 52px) * ${nodes ? stage.left / nodes : 0})` },
          }),
          h("b", {}, stage.left.toLocaleString("en")),
        ),
        h("span.detail", {}, stage.lost ? `${stage.lost.toLocaleString("en")} ${stage.detail}` : ""),
      ),
    ),
  );
}
