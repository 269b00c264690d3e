// A simulation: schedulers side by side on one time slider, refused pods in red, utilisation and fragmentation over time.

import { ask } from "./api.js";
import { drawMap } from "./canvas.js";
import { chart, valueAt } from "./chart.js";
import { card, field, h, nodeLink, pair, select, table } from "./dom.js";
import { count, shortName, time } from "./format.js";
import { domainsOf, layout, range } from "./layout.js";
import { askMap } from "./map_data.js";
import { shades } from "./picture.js";

const SHOWN = 12;
// So many of each scheduler are kept.
const MOST = 1000;
const FRAMES_A_SECOND = 8;
const LEGEND = [
  ["use-0", "idle"],
  ["use-1", "up to 25 %"],
  ["use-2", "50 %"],
  ["use-3", "75 %"],
  ["use-4", "more in use"],
  ["bad", "refused a pod at this moment"],
];

export function simulationScreen({ go }) {
  const element = h("div.simulation");
  let [found, map, refusals, frame, frameBefore, player] = [null, null, [], null, null, null];
  const wanted = () => Object.fromEntries(new URLSearchParams(location.search));
  const last = () => Math.max(...found.runs.map((run) => run.frames)) - 1;
  const chosen = () => (wanted().at === undefined ? last() : Math.min(Number(wanted().at) || 0, last()));
  const resource = () => (found.resources.includes(wanted().resource) ? wanted().resource : found.resources[0]);

  const slider = h("input", {
    type: "range",
    min: 0,
    step: 1,
    "aria-label": "Simulated time",
    oninput: () => change({ at: slider.value }),
  });
  const clock = h("output.clock");
  const play = h("button", { type: "button", onclick: () => (player ? stop() : start()) }, "Play");
  const follow = h(
    "button",
    {
      type: "button",
      onclick: () => {
        stop();
        change({ at: "" });
      },
    },
    "Latest",
  );
  const parts = {
    head: h("div"),
    choice: h("span"),
    maps: h("div.runs"),
    legend: h(
      "ul.legend",
      { "aria-label": "Legend" },
      shades(LEGEND),
      h("li", {}, h("i.outlined"), "3✕: three pods refused so far"),
    ),
    charts: h("div.charts"),
    figures: h("div"),
    refusals: h("div"),
  };

  function change(values) {
    const next = Object.entries({ ...wanted(), ...values }).filter(([, value]) => value !== "" && value !== undefined);
    go(`/simulation${next.length ? `?${new URLSearchParams(next)}` : ""}`, { replace: true });
    return showFrame();
  }

  function start() {
    if (chosen() >= last()) change({ at: 0 });
    play.textContent = "Pause";
    player = setInterval(() => {
      if (!element.isConnected || chosen() >= last()) return stop();
      return change({ at: chosen() + 1 });
    }, 1000 / FRAMES_A_SECOND);
  }

  function stop() {
    clearInterval(player);
    player = null;
    play.textContent = "Play";
  }

  async function update() {
    [found, map] = await Promise.all([ask("simulation"), askMap()]);
    const asked = found.runs.map(({ scheduler }) => ask("simulation/refusals", { scheduler, limit: String(MOST) }));
    refusals = (await Promise.all(asked)).flatMap(({ items }) => items);
    if (parts.head.parentNode !== element) {
      element.replaceChildren(
        parts.head,
        card(null, h("div.controls.timeline", {}, play, slider, clock, follow, parts.choice), parts.legend, parts.maps),
        parts.charts,
        pair(parts.figures, parts.refusals),
      );
    }
    parts.head.replaceChildren(
      h("h1", {}, h("span.quiet", {}, "Simulation "), found.scenario),
      h(
        "ul.facts",
        {},
        h("li", {}, h("b", {}, found.nodes.length.toLocaleString("en")), " nodes"),
        h("li", {}, h("b", {}, found.runs[0].wanted.toLocaleString("en")), " pods"),
        h("li", {}, "lasts ", h("b", {}, time(found.lasts)), found.over ? ", finished" : null),
        found.over ? null : h("li", {}, `runs, at ${time(found.runs[0].at.at(-1) ?? 0)}`),
      ),
      found.answer ? h("p.answer", { class: found.runs.at(-1).refused.at(-1) ? "bad" : "good" }, found.answer) : "",
    );
    if (!parts.choice.contains(document.activeElement))
      parts.choice.replaceChildren(
        field(
          "In use",
          select(
            found.resources.map((each) => [each, shortName(each)]),
            resource(),
            (value) => change({ resource: value }),
          ),
        ),
      );
    await showFrame();
  }

  async function showFrame() {
    const number = chosen();
    const [now, before] = await Promise.all(
      [number, Math.max(0, number - 1)].map((each) => ask(`simulation/frames/${each}`)),
    );
    if (number !== chosen()) return;
    [frame, frameBefore] = [now, before];
    render();
  }

  function render() {
    slider.max = last();
    slider.value = chosen();
    slider.setAttribute("aria-valuetext", time(frame.at));
    clock.textContent = time(frame.at);
    follow.disabled = wanted().at === undefined;
    parts.maps.replaceChildren(...frame.runs.map(runBox));
    frame.runs.forEach((run, number) => drawRun(parts.maps.children[number], run, number));
    const series = (values) => found.runs.map((run) => ({ name: run.scheduler, at: run.at, values: run[values] }));
    const options = {
      room: (parts.charts.clientWidth || 640) - 30,
      lasts: found.lasts,
      now: frame.at,
      pick: (at) =>
        change({ at: String(Math.max(0, Math.min(last(), Math.round((at * (found.moments - 1)) / found.lasts)))) }),
    };
    parts.charts.replaceChildren(
      chart("CPU in use", series("cpu"), { ...options, unit: "%" }),
      chart("NUMA fragmentation of free CPUs", series("fragmentation"), { ...options, unit: "%" }),
      chart("Pods refused by kubelets, in all", series("refused"), options),
      chart("Pods waiting", series("waiting"), options),
    );
    parts.figures.replaceChildren(card("At this moment", figures()));
    parts.refusals.replaceChildren(card("Refused pods", refusalTable()));
  }

  const refusedOf = ({ refused }) => Object.values(refused).reduce((one, other) => one + other, 0);

  function runBox(run) {
    const [{ scheduler }, sum] = [run, refusedOf(run)];
    return h(
      "section.run",
      {},
      h(
        "h2",
        {},
        scheduler,
        " ",
        sum ? h("span.refused", {}, `${count(sum, "pod")} refused`) : h("span.fine", {}, "none refused"),
      ),
      h("div.picture", {}, h("canvas", { role: "img" })),
    );
  }

  function drawRun(box, run, number) {
    const [canvas, width] = [
      box.querySelector("canvas"),
      Math.max(200, box.querySelector(".picture").clientWidth || 320),
    ];
    const places = new Map(found.nodes.map((name, at) => [name, at]));
    const used = run.used[resource()] ?? [];
    const of = (at) => used[places.get(map.nodes[at])] ?? 0;
    const refusedNow = (at) =>
      (run.refused[map.nodes[at]] ?? 0) >
      (frameBefore.frame === frame.frame ? 0 : (frameBefore.runs[number].refused[map.nodes[at]] ?? 0));
    const look = {
      number: (at) => (run.refused[map.nodes[at]] ? `${run.refused[map.nodes[at]]}✕` : ""),
      shade: (at) => `use-${Math.min(4, Math.ceil(of(at) / 25))}`,
      brief: (first, end) =>
        `${Math.round(range({ first, end }).reduce((sum, at) => sum + of(at), 0) / Math.max(1, end - first))} %`,
    };
    drawMap(canvas, map, layout(map, domainsOf(map), width, 300), look, {
      dimmed: () => false,
      fill: (at) => (refusedNow(at) ? "bad" : null),
      outlined: (at) => (run.refused[map.nodes[at]] ? "bad" : null),
    });
    const refused = Object.keys(run.refused).length;
    canvas.setAttribute(
      "aria-label",
      `${run.scheduler} at ${time(frame.at)}: ${count(map.nodes.length, "node")}, ${look.brief(0, map.nodes.length)} of ${shortName(resource())} in use on average, ${refused ? `${count(refused, "node")} refused pods` : "no node refused a pod"}`,
    );
  }

  function figures() {
    const lines = [
      ["running", "running"],
      ["waiting", "waiting"],
      ["finished", "finished"],
      ["refused", "refused, in all"],
      ["cpu", "CPU in use, %"],
      ["memory", "memory in use, %"],
      ["fragmentation", "fragmentation, %"],
    ];
    const value = (run, key) => run[key][valueAt(run.at, frame.at)];
    return table(
      ["", ...found.runs.map((run) => `#${run.scheduler}`)],
      lines.map(([key, text]) => [
        text,
        ...found.runs.map((run) => {
          const shown = value(run, key);
          return shown === null || shown === undefined
            ? "–"
            : h(key === "refused" && shown ? "b.refused" : "span", {}, shown.toLocaleString("en"));
        }),
      ]),
      `Pods and shares at ${time(frame.at)}`,
    );
  }

  function refusalTable() {
    const past = refusals.filter(({ at }) => at <= frame.at + 1e-6).toSorted((one, other) => other.at - one.at);
    if (!past.length) return h("p", {}, `No kubelet has refused a pod by ${time(frame.at)}.`);
    const all = frame.runs.reduce((sum, run) => sum + refusedOf(run), 0);
    const missing = all > past.length ? `; only the first ${MOST.toLocaleString("en")} of each scheduler are kept` : "";
    return table(
      ["#time", "scheduler", "pod", "node", "reason"],
      past
        .slice(0, SHOWN)
        .map((each) => [
          time(each.at),
          each.scheduler,
          h("span.refused", {}, each.pod),
          nodeLink(each.node),
          each.reason,
        ]),
      `${Math.min(SHOWN, past.length)} of ${all.toLocaleString("en")} by ${time(frame.at)}, latest first${missing}`,
    );
  }

  return { element, update, redraw: () => frame && render() };
}
