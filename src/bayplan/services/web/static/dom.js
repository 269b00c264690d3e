// Elements from data. Text is always set as text, never parsed as markup, so names cannot inject anything.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  return filled(element, attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.classList.add(...(value ? value.split(" ") : []));
    else if (key === "style") Object.assign(element.style, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

export function card(title, ...content) {
  return h("section.card", {}, title ? h("h2", {}, title) : null, ...content);
}

// Cards side by side where there is room.
export function pair(...cards) {
  return h("div.pair", {}, cards.filter(Boolean));
}

export function facts(entries, ...more) {
  const known = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "ul.facts",
    {},
    known.map(([label, value]) => h("li", {}, `${label} `, h("b", {}, String(value)))),
    more,
  );
}

export function table(columns, rows, caption) {
  const numeric = (column) => (column.startsWith("#") ? "number" : null);
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption.quiet", {}, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((each) => h("th", { scope: "col", class: numeric(each) }, each.replace("#", ""))),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            row.map((cell, at) => h("td", { class: numeric(columns[at]) }, cell)),
          ),
        ),
      ),
    ),
  );
}

// `cpu 4 · memory 8Gi` in as many lines as it needs, no amount on two of them.
export function wholes(text) {
  return text.split(" · ").map((each, at) => [at ? " · " : "", h("span.whole", {}, each)]);
}

const natural = new Intl.Collator("en", { numeric: true });

// A table whose columns sort its rows: `rows` are cells and the keys to sort by. `order` remembers the choice.
export function sortable(columns, rows, caption, order) {
  const made = table(
    columns,
    rows.map(({ cells }) => cells),
    caption,
  );
  const [heads, body] = [[...made.querySelectorAll("th")], made.querySelector("tbody")];
  const lines = [...body.children].map((line, at) => [rows[at].keys, line]);
  const sort = () => {
    const by = Math.max(0, columns.indexOf(order.by));
    heads.forEach((head, at) =>
      head.setAttribute("aria-sort", at !== by ? "none" : order.down ? "descending" : "ascending"),
    );
    const compare = ([one], [other]) =>
      typeof one[by] === "number" ? one[by] - other[by] : natural.compare(one[by], other[by]);
    body.append(...lines.toSorted((one, other) => compare(one, other) * (order.down ? -1 : 1)).map(([, line]) => line));
  };
  heads.forEach((head, at) => {
    // The most first, of numbers.
    const down = () => (order.by === columns[at] ? !order.down : typeof rows[0]?.keys[at] === "number");
    const onclick = () => (Object.assign(order, { down: down(), by: columns[at] }), sort());
    head.replaceChildren(h("button.sort", { type: "button", onclick }, ...head.childNodes));
  });
  sort();
  return made;
}

export function field(label, control) {
  return h("label.field", {}, h("span", {}, label), control);
}

export function select(options, chosen, change) {
  return h(
    "select",
    { onchange: (event) => change(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
}

// `telco/upf-0` as a link to its explanation; names of hidden namespaces lead nowhere.
export function podLink(key, kind = "pod") {
  const slash = key.indexOf("/");
  if (slash < 0 || key.startsWith("hidden/")) return h("span.name", {}, key);
  const [namespace, name] = [key.slice(0, slash), key.slice(slash + 1)];
  return h("a.name", { href: path("why", namespace, kind, name) }, key);
}

export function nodeLink(node) {
  return h("a.name", { href: path("node", node) }, node);
}

export function path(...parts) {
  return "/" + parts.map(encodeURIComponent).join("/");
}
