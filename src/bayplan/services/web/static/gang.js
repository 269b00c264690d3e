// Gangs: the list of them, and one gang with its nodes outlined, its ranks, distances, and whether it could be closer.

import { ask } from "./api.js";
import { answer, bars } from "./answer.js";
import { card, facts, h, nodeLink, pair, path, podLink, table } from "./dom.js";
import { age, amounts, count, shortName } from "./format.js";
import { mapWith } from "./map_data.js";
import { matrix } from "./matrix.js";
import { picture } from "./picture.js";
import { preemption, warnings } from "./why.js";

const [MOST_NAMED, MOST_MAPS] = [200, 8];

export function gangsScreen() {
  const element = h("div.gangs");
  const update = async () => {
    const { items, metadata } = await ask("gangs");
    const rows = items.map((each) => [
      h("a", { href: path("gang", each.namespace, each.name) }, each.workload ?? each.gang),
      each.status === "Running" ? each.status : h("b.refused", {}, each.status),
      each.required ? shortName(each.required) : each.preferred ? `${shortName(each.preferred)} preferred` : "",
      each.ageSeconds === null ? "" : age(each.ageSeconds),
      String(each.members),
      String(each.running),
      each.waiting ? h("b.refused", {}, String(each.waiting)) : "0",
      String(each.nodes),
    ]);
    const empty = h("p", {}, "There are no gangs: no pod names a PodGroup, and no workload asks for a topology.");
    element.replaceChildren(
      h("h1", {}, "Gangs"),
      card(
        null,
        rows.length
          ? table(["gang", "status", "level", "#age", "#members", "#running", "#waiting", "#nodes"], rows, "Every gang of the cluster")
          : empty,
        metadata.remainingItemCount ? h("p.quiet", {}, `and ${metadata.remainingItemCount} more`) : null,
      ),
    );
  };
  return { element, update };
}

export function gangScreen({ parts: [namespace, name] }) {
  const element = h("div.gang");
  let last = null;
  const update = async () => {
    const [found, gang] = await Promise.all([
      ask(path("why", namespace, "podgroup", name).slice(1)),
      ask(path("gangs", namespace, name).slice(1)).catch(() => null),
    ]);
    last = [found, gang, (await mapsOf([found.now], found.rooms))[0]];
    render();
  };
  const render = () => {
    const [found, gang, map] = last;
    const asked = gang
      ? facts([
          ["required", gang.required && shortName(gang.required)],
          ["preferred", gang.preferred && shortName(gang.preferred)],
          ["minimum", gang.minimum],
          ["members", gang.members.length],
        ])
      : "";
    element.replaceChildren(
      h("h1", {}, h("span.quiet", {}, "Gang "), `${namespace}/${name}`),
      asked,
      ...gangParts(found.now, map),
      members(gang, found.now),
      preemption(found),
      warnings(found),
    );
  };
  return { element, update, redraw: () => last && render() };
}

// The maps of the first gangs of an answer, each with the slots for the gang's most frequent shape.
export async function mapsOf(gangs, rooms) {
  const maps = [];
  for (const [at, { topology }] of gangs.slice(0, MOST_MAPS).entries())
    maps.push(topology ? await mapWith(rooms[at], { topology }) : null);
  return maps;
}

const seatsOf = (now) => [...now.running, ...now.seats];

// Everything about a gang's decision, also for the Why and What-if screens, whose pods may not be `created` yet.
export function gangParts(now, map = null, { created = true } = {}) {
  const seats = seatsOf(now);
  const domains = now.levels.map((level, depth) => [
    `${shortName(level)}s`,
    seats.length ? new Set(seats.map((each) => each.domain.slice(0, depth + 1).join("/"))).size : null,
  ]);
  return [
    answer(now.answer, now.fits),
    facts([
      ["topology", now.topology],
      ["status", now.status],
      ["pods", seats.length || null],
      ["nodes", new Set(seats.map((each) => each.node)).size || null],
      ...domains,
      ["largest distance", now.distance?.largest],
      ["mean distance", now.distance?.mean],
    ]),
    map
      ? picture(
          !now.fits ? "Room for its pods" : now.seats.length ? "Where it would go" : "Where it is",
          map,
          seats.map((each) => each.node),
        )
      : "",
    pair(
      now.couldBeCloser
        ? card(
            "Could it be closer?",
            h("p", {}, `${now.couldBeCloser.text}; ${now.couldBeCloser.proven ? "proven" : "not proven"}.`),
          )
        : null,
      now.restsOn && now.seats.length ? card("This rests on", h("p", {}, now.restsOn)) : null,
    ),
    ...now.shapes.map(shape),
    now.wouldScheduleIf.length
      ? card(
          "Would schedule now if",
          h(
            "ul",
            {},
            now.wouldScheduleIf.map((each) => h("li", {}, each.change)),
          ),
        )
      : "",
    now.leftOut.length ? card("Left out for now", h("p", {}, now.leftOut.join(", "))) : "",
    pair(
      seats.length
        ? card(
            "Ranks",
            table(
              ["#rank", "pod", "node", "domain"],
              seats.map((each) => [
                each.rank === null ? "" : String(each.rank),
                created || now.running.includes(each) ? podLink(each.pod) : h("span.name", {}, each.pod),
                nodeLink(each.node),
                each.domain.join(" › "),
              ]),
              "Where each member is or would go",
            ),
          )
        : null,
      seats.length > 1 ? card("Distances", matrix(now, seats)) : null,
    ),
  ];
}

function shape(each) {
  return pair(
    each.room.length
      ? card(
          `${count(each.pods, "pod")} asking for ${amounts(each.asksFor.total)}`,
          table(
            ["level", "#domains", "#hold all", "#most pods", "in"],
            each.room.map((room) => [
              shortName(room.level),
              String(room.domains),
              String(room.holdAll),
              String(room.most),
              room.in.join(" › ") || "–",
            ]),
            "Room for such pods at every level",
          ),
        )
      : null,
    each.stages.length
      ? card("Where nodes fall away", bars(each.stages[0].left + each.stages[0].lost, each.stages))
      : null,
  );
}

// Members that wait, under the reason that they share.
function members(gang, now) {
  const waiting = gang?.members.filter((each) => !each.node) ?? [];
  if (!waiting.length) return "";
  const byReason = Map.groupBy(waiting, (each) => reasonOf(each, now));
  return card(
    `${count(waiting.length, "member")} wait${waiting.length === 1 ? "s" : ""}`,
    [...byReason].map(([reason, pods]) => [
      h("p.reason", {}, byReason.size > 1 ? h("b", {}, `${pods.length}: `) : null, reason),
      h(
        "p.names",
        {},
        pods.slice(0, MOST_NAMED).map((each) => podLink(each.pod)),
      ),
      pods.length > MOST_NAMED ? h("p.quiet", {}, `and ${pods.length - MOST_NAMED} more`) : null,
    ]),
  );
}

function reasonOf({ pod, gates }, now) {
  if (gates.length) return `held back by scheduling gates: ${gates.join(", ")}`;
  if (now.leftOut.includes(pod)) return "left out for now: the gang has no room for more than the others";
  if (now.waits) return now.waits;
  if (now.fits) return "the gang fits now; the scheduler has not bound them yet";
  return now.answer.replace(/^.*? does not fit: /, "");
}
