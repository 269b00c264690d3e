// The search box: results while typing, arrows and Enter to choose.

import { h } from "./dom.js";

export function setUpSearch(ask, open) {
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  let results = [];
  let chosen = -1;
  let timer = null;

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function pick(at) {
    if (!results[at]) return;
    close();
    input.value = "";
    open(results[at]);
  }

  function mark(at) {
    chosen = Math.max(0, Math.min(at, results.length - 1));
    [...list.children].forEach((each, number) => each.setAttribute("aria-selected", String(number === chosen)));
    input.setAttribute("aria-activedescendant", `found-${chosen}`);
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  }

  async function find() {
    const text = input.value.trim();
    if (!text) return close();
    const found = await ask("search", { q: text, limit: "12" }).catch(() => ({ items: [] }));
    if (input.value.trim() !== text) return;
    results = found.items;
    list.replaceChildren(...(results.length ? results.map(row) : [h("li.quiet", {}, "Nothing has this in its name.")]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (results.length) mark(0);
  }

  function row(result, at) {
    const name = result.namespace ? `${result.namespace}/${result.name}` : (result.path?.join(" › ") ?? result.name);
    return h(
      "li",
      { id: `found-${at}`, role: "option", "aria-selected": "false", onmousedown: () => pick(at) },
      h("span.tag", {}, result.type),
      name,
    );
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(find, 150);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(chosen + 1);
    else if (event.key === "ArrowUp") mark(chosen - 1);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!list.hidden) pick(chosen);
  });
  input.addEventListener("blur", () => setTimeout(close, 150));
}
