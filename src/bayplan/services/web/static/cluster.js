// The cluster: blocks, racks and nodes as boxes, coloured by what the viewer chooses; click or Enter goes deeper.

import { ask } from "./api.js";
import { choose, drawMap, hit, neighbour } from "./canvas.js";
import { BY, colouring, sum } from "./colouring.js";
import { card, field, h, path, select, table } from "./dom.js";
import { count, shortName, time } from "./format.js";
import { domainAt, domainsOf, layout, range } from "./layout.js";
import { ageOf, askMap, causesOf, closedIn, reportOf } from "./map_data.js";
import { MOST_LISTED, nodeTable } from "./node_table.js";
import { legendOf } from "./picture.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const SPACE_FOR_REST = 250;

export function clusterScreen({ go }) {
  const element = h("div.cluster");
  let [map, summary, nodes, root, plan, look, what, chosen, wrong] = [null, null, null, null, null, null, "", -1, ""];
  const order = { by: "node", down: false };
  let [updates, answered] = [0, 0];
  const canvas = h("canvas", { tabindex: 0, role: "img" });
  const tip = h("p.tip", { role: "status", "aria-live": "polite" });
  const parts = {
    head: h("div"),
    controls: h("div.controls"),
    legend: h("ul.legend", { "aria-label": "Legend" }),
    closed: h("ul.closed.quiet", { "aria-label": "Closed nodes" }),
    domains: h("div.domains"),
    nodes: h("div.nodes"),
  };
  const picture = h("div.picture", {}, canvas);

  const wanted = () => Object.fromEntries(new URLSearchParams(location.search));
  const inside = () => (wanted().in ?? "").split("/").filter(Boolean);
  const shown = () => domainAt(root, inside()) ?? root;

  function change(values) {
    const next = Object.fromEntries(Object.entries({ ...wanted(), ...values }).filter(([, value]) => value));
    go(`/${Object.keys(next).length ? `?${new URLSearchParams(next)}` : ""}`, { replace: !("in" in values) });
    if (!("in" in values)) update();
  }

  async function update() {
    const number = (updates += 1);
    const { topology, requests, tolerate, by } = wanted();
    const slots = by === "slots" ? requests || `${map?.leading ?? "cpu"}=1` : "";
    let mistake = "";
    // A mistyped amount must not take the field away in which it was typed.
    const asked = askMap({ topology, requests: slots, tolerate: slots && tolerate }).catch((error) => {
      if (error.status !== 400 || !slots) throw error;
      mistake = error.message.replace("requests: ", "");
      return askMap({ topology });
    });
    const [newMap, newSummary] = await Promise.all([asked, ask("cluster")]);
    const newRoot = domainsOf(newMap);
    const { first, end, path: within } = domainAt(newRoot, inside()) ?? newRoot;
    const listed =
      end - first <= MOST_LISTED
        ? await ask("nodes", { topology: newMap.topology, in: within.join("/"), limit: String(MOST_LISTED) })
        : null;
    // The answer to a later question may be here already.
    if (number < answered) return;
    answered = number;
    [map, summary, nodes, root, wrong] = [newMap, newSummary, listed, newRoot, mistake];
    if (parts.head.parentNode !== element)
      element.replaceChildren(
        parts.head,
        card(null, parts.controls, parts.legend, parts.closed, picture, tip),
        parts.domains,
        parts.nodes,
      );
    render();
  }

  function render() {
    const { by = "free", gang } = wanted();
    const resource = map.resources.some(({ name }) => name === wanted().resource) ? wanted().resource : map.leading;
    const scope = shown();
    look = colouring(map, by, resource);
    what = by === "free" ? `free ${shortName(resource)}` : (BY.find(([each]) => each === by)?.[1] ?? by);
    const needed = by === "slots" ? Number(gang) || 0 : 0;
    const short = needed ? tooSmall(root, needed) : null;
    const width = Math.max(260, picture.clientWidth || element.clientWidth - 40);
    plan = layout(map, scope, width, Math.max(320, window.innerHeight - SPACE_FOR_REST));
    drawMap(canvas, map, plan, look, { dimmed: (at) => short?.[at] ?? false });
    if (chosen >= scope.first && chosen < scope.end) choose(canvas, plan, chosen);
    parts.head.replaceChildren(...heading(scope));
    if (!parts.controls.contains(document.activeElement)) parts.controls.replaceChildren(...controls(by, resource));
    const closed = closedIn(map, scope, look.left);
    parts.legend.replaceChildren(...legendOf(map, look, plan, scope));
    parts.closed.replaceChildren(...closed.map((text) => h("li", {}, text)));
    canvas.setAttribute(
      "aria-label",
      `Map of ${count(scope.end - scope.first, "node")}, ${what} ${look.sum(scope.first, scope.end)}; arrow keys choose a node, Enter opens it; the table below has the same numbers`,
    );
    parts.domains.replaceChildren(scope.children.length ? domainTable(scope) : "");
    parts.nodes.replaceChildren(nodesOf(scope, by, resource));
    tip.textContent ||= "Point at a box, or use the arrow keys.";
  }

  function heading(scope) {
    const trail = [h("a", { href: address([]) }, map.topology ?? "all nodes")];
    scope.path.forEach((name, at) => trail.push(" › ", h("a", { href: address(scope.path.slice(0, at + 1)) }, name)));
    // Pods and gangs are counted for the whole cluster only.
    const numbers =
      scope === root
        ? [
            [summary.nodes, "node"],
            [summary.pods, "running pod"],
            [summary.waiting, "waiting pod"],
            [summary.gangs, "gang"],
          ]
        : [];
    const links = { "waiting pod": "/why", gang: "/gangs" };
    const counted = ([number, noun]) => [h("b", {}, number.toLocaleString("en")), ` ${noun}${number === 1 ? "" : "s"}`];
    const levels = map.levels.map((each) => each.name).join(" › ");
    return [
      h("h1", {}, h("span.trail", {}, trail)),
      h(
        "ul.facts",
        {},
        scope === root
          ? null
          : h("li", {}, h("b", {}, (scope.end - scope.first).toLocaleString("en")), ` of ${count(summary.nodes, "node")}`),
        numbers.map((each) =>
          h("li", {}, links[each[1]] && each[0] ? h("a", { href: links[each[1]] }, counted(each)) : counted(each)),
        ),
        levels ? h("li", {}, levels) : null,
        h(
          "li",
          {},
          `${summary.source}, ${summary.source === "simulation" ? time(summary.takenAt) : new Date(1000 * summary.takenAt).toLocaleString()}`,
        ),
      ),
      wrong ? h("p.answer.bad", { role: "alert" }, wrong) : "",
      scope === root && inside().length
        ? h("p.answer.bad", {}, `There is no ${inside().join(" › ")} here; this is everything.`)
        : "",
      summary.warnings.length
        ? h(
            "details.warnings",
            {},
            h("summary", {}, count(summary.warnings.length, "warning")),
            h(
              "ul",
              {},
              summary.warnings.map((each) => h("li", {}, each)),
            ),
          )
        : "",
    ];
  }

  const address = (names) => `/?${new URLSearchParams({ ...wanted(), in: names.join("/") })}`;

  function controls(by, resource) {
    const { topology, requests, tolerate, gang } = wanted();
    const found = [
      field(
        "Colour by",
        select(BY, by, (value) => change({ by: value })),
      ),
    ];
    if (summary.topologies.length > 1)
      found.unshift(
        field(
          "Topology",
          select(
            summary.topologies.map((each) => [each, each]),
            topology ?? map.topology,
            (value) => change({ topology: value, in: "" }),
          ),
        ),
      );
    if (by === "free" || by === "fragmentation")
      found.push(
        field(
          "Resource",
          select(
            map.resources.map(({ name }) => [name, shortName(name)]),
            resource,
            (value) => change({ resource: value }),
          ),
        ),
      );
    if (by === "slots") {
      found.push(
        field(
          "Pod requests",
          h("input", {
            value: requests ?? `${map.leading}=1`,
            size: 26,
            spellcheck: "false",
            onchange: (event) => change({ requests: event.target.value }),
          }),
        ),
        field(
          "Tolerates",
          h("input", {
            value: tolerate ?? "",
            size: 18,
            spellcheck: "false",
            placeholder: "key=value, key",
            onchange: (event) => change({ tolerate: event.target.value }),
          }),
        ),
        field(
          "Gang of",
          h("input", {
            type: "number",
            min: 0,
            max: 100000,
            value: gang ?? "",
            placeholder: "pods",
            onchange: (event) => change({ gang: event.target.value }),
          }),
        ),
      );
    }
    return found;
  }

  function domainTable(scope) {
    const closed = (domain) => range(domain).filter((at) => map.closed[at]).length;
    const some = closed(scope) > 0;
    const level = scope.children[0].level || "domain";
    const rows = scope.children.map((each) => [
      h("a", { href: address(each.path) }, each.name),
      String(each.end - each.first),
      look.sum(each.first, each.end),
      ...(some ? [String(closed(each))] : []),
    ]);
    return card(
      null,
      table(
        [level, "#nodes", `#${what}`, ...(some ? ["#closed"] : [])],
        rows,
        `Every ${level} of ${scope.path.join(" › ") || map.topology || "the cluster"}`,
      ),
    );
  }

  function nodesOf(scope, by, resource) {
    if (!nodes) return h("p.quiet", {}, `Nodes are listed where there are at most ${MOST_LISTED} of them.`);
    const places = new Map(range(scope).map((at) => [map.nodes[at], at]));
    const text = (name) => (places.has(name) ? look.number(places.get(name)) : "");
    const value = (name) => (by === "age" ? ageOf(map, places.get(name) ?? 0) : Number.parseFloat(text(name)) || 0);
    const coloured = { title: what, text, value };
    return card(null, nodeTable(nodes, { map, scope, resource, more: by === "free" ? [] : [coloured], order }));
  }

  function tooSmall(top, needed) {
    const found = new Array(map.nodes.length).fill(true);
    const walk = (domain) => {
      if (domain.children.length) return domain.children.forEach(walk);
      const room = sum(map.slots, domain.first, domain.end);
      // A gang cannot be together outside of the tree.
      if (room >= needed && domain.first < map.inTree) found.fill(false, domain.first, domain.end);
    };
    walk(top);
    return found;
  }

  function point(at, domain) {
    if (at >= 0)
      tip.textContent = `${map.nodes[at]}: ${look.text(at)}; report ${reportOf(map, at)}${map.closed[at] ? `; ${causesOf(map, at).join(", ")}` : ""}`;
    else if (domain)
      tip.textContent = `${domain.path.join(" › ")}: ${count(domain.end - domain.first, "node")}, ${what} ${look.sum(domain.first, domain.end)}`;
  }

  const under = (event) => hit(plan, event.offsetX, event.offsetY);
  canvas.addEventListener("mousemove", (event) => {
    const { node, domain } = under(event);
    point(node, domain);
    canvas.style.cursor = node >= 0 || domain ? "pointer" : "default";
  });
  canvas.addEventListener("click", (event) => {
    const { node, domain } = under(event);
    if (node >= 0 && plan.cell >= 8) go(path("node", map.nodes[node]));
    else if (domain) change({ in: domain.path.join("/") });
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && chosen >= 0) return go(path("node", map.nodes[chosen]));
    if (!(event.key in ARROWS)) return;
    event.preventDefault();
    const scope = shown();
    chosen = chosen < scope.first || chosen >= scope.end ? scope.first : neighbour(plan, chosen, ARROWS[event.key]);
    point(chosen, null);
    choose(canvas, plan, chosen);
  });
  new ResizeObserver(() => map && plan && Math.abs(picture.clientWidth - plan.width) > 2 && render()).observe(picture);
  return { element, update, redraw: () => map && render() };
}
