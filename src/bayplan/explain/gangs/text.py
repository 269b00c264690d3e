"""A gang as text: the first line is the answer, then the seats and the room that is left, or why it has no place.

    ml/pretrain fits: block b2, 2 racks, 8 nodes (optimal)

      rack   pods  ranks  nodes
      b2/r1     8  0-7    b2-r1-n[1-4]
      b2/r3     8  8-15   b2-r3-n[1-4]

The data comes from `outcome.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.engine.gangs.objective import USUAL, in_order
from bayplan.engine.gangs.parallel import spread_of
from bayplan.engine.gangs.problem import Status
from bayplan.explain.amounts import count, listing
from bayplan.explain.folding import WIDTH, prose
from bayplan.explain.gangs.changes import gang_changes
from bayplan.explain.gangs.outcome import GangOutcome, ShapeView, seat_rows
from bayplan.explain.numa.labels import zone_column
from bayplan.explain.table import table
from bayplan.explain.topology.hostlist import hostlist
from bayplan.explain.topology.levels import in_one, in_short, path_text, place_phrase, ranks_text, short_levels
from bayplan.explain.why import change_lines, detail_lines, stage_lines, volume_lines
from bayplan.gangs.closeness import Closeness
from bayplan.gangs.model import LevelRoom, Seat
from bayplan.gangs.trees import NODE
from bayplan.kube.topology_levels import HOSTNAME, level_meant
from bayplan.kube.visible import visible, visible_lines

LONGEST_HOSTLIST = 48
LEAD = "rests on  "
MOST_GROUPS = 3


def gang_text(outcome: GangOutcome, status: str = "", *, wide: bool = False) -> str:
    """One gang; `status` is its state: `is Pending for 4m`."""
    if outcome.runs:
        return visible_lines(_running_lines(outcome, wide=wide))
    if outcome.decision.problem:
        return visible(f"{outcome.title} is not placed: {outcome.decision.problem}.")
    if not outcome.seats:
        return visible_lines([_refused_line(outcome, status), *_why_lines(outcome)])
    lines = [fitting_line(outcome, status), ""]
    lines += _every_seat(outcome, outcome.seats) if wide else _seat_lines(outcome, outcome.seats)
    lines += ["", *_room_lines(outcome)] if outcome.decision.placed else []
    lines += ["", *_remarks(outcome, wide=wide)]
    return visible_lines(lines)


def _running_lines(outcome: GangOutcome, *, wide: bool) -> list[str]:
    """That a gang runs, and where."""
    levels = outcome.levels if all(len(seat.path) > len(outcome.levels) for seat in outcome.running) else ()
    where = place_phrase(levels, [seat.path[-1 - len(levels) :] for seat in outcome.running])
    return [f"{outcome.title} runs: {where}", *running_lines(outcome, wide=wide)]


def running_lines(outcome: GangOutcome, *, wide: bool = False) -> list[str]:
    """Where running pods are, their distances, and whether they could be closer."""
    told = _distance(outcome)
    told += [("closer?   ", closer_text(outcome.closeness, outcome.levels))] if outcome.closeness else []
    table_lines = _every_seat(outcome, outcome.running) if wide else _seat_lines(outcome, outcome.running)
    return ["", *table_lines, *([""] if told else []), *_told_lines(told)]


def closer_text(closeness: Closeness, levels: Sequence[str]) -> str:
    """`yes: 1 rack instead of 2 if started anew`, `no: 2 racks is the optimum`."""
    short = NODE if closeness.level == HOSTNAME else in_short(level_meant(closeness.level, levels) or "", levels)
    now, distance = count(closeness.now, short), closeness.distance_anew
    if closeness.could_be_closer and closeness.anew is not None and distance is not None:
        where = place_phrase(levels, closeness.paths)
        if closeness.anew < closeness.now:
            return f"yes: {count(closeness.anew, short)} instead of {closeness.now} if started anew ({where})"
        means = f"{distance.mean:.3g} between two pods on average instead of {closeness.distance.mean:.3g}"
        return f"yes: {means} if started anew ({where})"
    return (
        f"no: {now} is the optimum" if closeness.proven else f"no better place than {now} was found; that is not proven"
    )


def fitting_line(outcome: GangOutcome, status: str = "") -> str:
    """`ml/pretrain fits: block b2, 4 racks, 8 nodes (optimal)`."""
    decision = outcome.decision
    where = place_phrase(outcome.levels, [seat.path for seat in outcome.seats])
    known = decision.status.value
    if decision.status is Status.FEASIBLE and decision.gap:
        known += f", at most {count(decision.gap, 'domain')} more than needed"
    known += f", {count(len(decision.left_out), 'pod')} left out" if decision.left_out else ""
    known += f", without {' and '.join(decision.relaxed)}" if decision.relaxed else ""
    name, pods = outcome.title, len(outcome.seats) + len(decision.left_out)
    if decision.waits:
        return f"{name} {f'{status}: it waits' if status else 'waits'} for a better place than {where} ({known})"
    if outcome.running:
        fit = f"{_running_count(outcome, pods)}, the other {pods} {'fits' if pods == 1 else 'fit'}"
        return f"{name}{f' {status}' if status else ''}: {fit}{' now' if status else ''}: {where} ({known})"
    return f"{name} {f'{status}: it fits now' if status else 'fits'}: {where} ({known})"


def _running_count(outcome: GangOutcome, others: int) -> str:
    """`1 of 3 pods runs`."""
    running = len(outcome.running)
    return f"{running} of {running + others} pods {'runs' if running == 1 else 'run'}"


def refusal_sentence(outcome: GangOutcome) -> str:
    """Why a gang has no place, with short names of levels: if some of its pods fit nowhere, that is why."""
    closed = next((shape for shape in outcome.shapes if shape.sentence), None)
    if closed is None or outcome.decision.problem or outcome.decision.style:
        return in_short(outcome.decision.bound, outcome.levels)
    if len(outcome.shapes) == 1:
        return closed.sentence
    return f"{_groups_text(closed.groups) or closed.example.metadata.name}: {closed.sentence}"


def _refused_line(outcome: GangOutcome, status: str) -> str:
    decision = outcome.decision
    unsure = decision.status is Status.LIMIT_REACHED
    if decision.style:  # whose sentence says by itself that it has no place
        return f"{outcome.title} {f'{status}: ' if status else ''}{refusal_sentence(outcome)}."
    if outcome.running:
        pods = sum(shape.pods for shape in outcome.shapes)
        fit = "might not fit" if unsure else "does not fit" if pods == 1 else "do not fit"
        lead = f"{outcome.title}{f' {status}' if status else ''}: {_running_count(outcome, pods)}"
        return f"{lead}, the other {pods} {fit}: {refusal_sentence(outcome)}."
    status = status or ("might not fit" if unsure else "does not fit")
    return f"{outcome.title} {status}: {refusal_sentence(outcome)}."


# -- seats -------------------------------------------------------------------------------------------------------


def _seat_lines(outcome: GangOutcome, seats: Sequence[Seat]) -> list[str]:
    """A line for each rack (the lowest level), group and segment, without empty columns."""
    rows = seat_rows(seats)
    domain = short_levels(outcome.levels)[-2] if outcome.levels else ""
    header = [domain, "group", "segment", "pods", "ranks", "nodes"]
    cells = [
        [
            path_text(row.domain),
            row.group,
            "" if row.segment is None else str(row.segment),
            str(len(row.nodes)),
            ranks_text([rank for rank in row.ranks if rank >= 0]),
            hostlist(row.nodes, LONGEST_HOSTLIST),
        ]
        for row in rows
    ]
    return _table(header, cells, numbers=("segment", "pods"))


def _every_seat(outcome: GangOutcome, seats: Sequence[Seat]) -> list[str]:
    domain = short_levels(outcome.levels)[-2] if outcome.levels else ""
    header = ["rank", "pod", "node", "NUMA zones", domain, "group", "segment"]
    cells = [
        [
            "" if seat.rank < 0 else str(seat.rank),
            seat.pod,
            seat.node,
            zone_column(outcome.zones.get(seat.pod, ())),
            path_text(seat.path[:-1]),
            seat.group,
            "" if seat.segment is None else str(seat.segment),
        ]
        for seat in seats
    ]
    return _table(header, cells, numbers=("rank", "segment"))


def _table(header: list[str], rows: list[list[str]], numbers: Sequence[str]) -> list[str]:
    """A table without empty columns."""
    kept = [column for column in range(len(header)) if any(row[column] for row in rows)]
    return table(
        [header[column] for column in kept],
        [[row[column] for column in kept] for row in rows],
        indent="  ",
        numbers=numbers,
    )


# -- room --------------------------------------------------------------------------------------------------------


def _room_lines(outcome: GangOutcome) -> list[str]:
    """The largest gang that each level holds, before and after; a line for each shape of pods."""
    header = ["largest gang of", *(in_one(short) for short in short_levels(outcome.levels))]
    rows = [
        [
            listing(shape.request.total) or "such pods",
            *(f"{before.most} → {after.most}" for before, after in zip(shape.before, shape.after, strict=True)),
        ]
        for shape in outcome.shapes
    ]
    return table(header, rows, indent="  ", numbers=header[1:])


def _remarks(outcome: GangOutcome, *, wide: bool) -> list[str]:
    decision = outcome.decision
    told = [(LEAD, in_short(decision.bound, outcome.levels))]
    told += [("goals     ", in_order(decision.objective))] if wide or decision.objective not in (USUAL, ()) else []
    told += _distance(outcome)
    told += [("running   ", _running_text(outcome))] if outcome.running else []
    told += [("parallel  ", "; ".join(parallelism_texts(outcome)))] if decision.parallelism else []
    told += [("patience  ", f"{decision.waits}; {decision.patience_left:.0f} s more")] if decision.waits else []
    told += [("gave up   ", ", ".join(decision.relaxed))] if decision.relaxed else []
    told += [("left out  ", hostlist(decision.left_out, WIDTH - 20))] if decision.left_out else []
    if outcome.zones_unknown:
        nodes = hostlist(outcome.zones_unknown, LONGEST_HOSTLIST)
        told.append(("reports   ", f"NUMA zones of {nodes} are unknown (no NodeResourceTopology)"))
    return _told_lines(told)


def _told_lines(told: Sequence[tuple[str, str]]) -> list[str]:
    """Remarks, each after its lead."""
    return [line for lead, words in told for line in prose(words, f"  {lead}")]


def _running_text(outcome: GangOutcome) -> str:
    """`rank 0 on b1-r1-n1`, `ranks 0-3 on b1-r1-n[1-2]`: the members with nodes."""
    nodes = hostlist([seat.node for seat in outcome.running], LONGEST_HOSTLIST)
    ranks = [seat.rank for seat in outcome.running if seat.rank >= 0]
    if len(ranks) < len(outcome.running):
        return f"{count(len(outcome.running), 'pod')} on {nodes}"
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {ranks_text(ranks)} on {nodes}"


def parallelism_texts(outcome: GangOutcome) -> list[str]:
    """`tensor: 8 of 8 groups of 4 pods on one node`, for each kind of parallel groups; narrow levels first."""
    levels = short_levels(outcome.levels)
    paths = [seat.path for seat in sorted(outcome.seats, key=lambda seat: seat.rank)]
    told = []
    for kind in outcome.decision.parallelism:
        spread = spread_of(paths, kind.pods)
        parts, before = [], 0
        for short, inside in reversed([*zip(levels, spread.inside_one, strict=True)]):
            if inside > before:
                parts.append(f"{inside - before} {in_one(short)}")
                before = inside
        parts += [f"{spread.groups - before} wider"] if before < spread.groups else []
        told.append(f"{kind.name}: {count(spread.groups, 'group')} of {kind.pods} pods, {', '.join(parts)}")
    return told


def _distance(outcome: GangOutcome) -> list[tuple[str, str]]:
    """`at most 4, 2.9 on average`, in edges of the tree; nothing if all pods are on one node."""
    far = outcome.distances
    if far is None or not far.largest:
        return []
    return [("distance  ", f"at most {far.largest} between two pods, {far.mean:.3g} on average")]


# -- refusal -----------------------------------------------------------------------------------------------------


def _why_lines(outcome: GangOutcome) -> list[str]:
    lines = _told_lines([("running   ", _running_text(outcome))]) if outcome.running else []
    for shape in outcome.shapes:
        lines.append(f"  {_who_asks(shape)}{listing(shape.request.total) or 'nothing'}  ({shape.described})")
        lines += stage_lines(outcome.nodes, shape.stages)
        lines += detail_lines(shape.causes)
        lines += volume_lines(shape.volumes)
        lines += ["", *room_table(outcome.levels, shape), ""]
    if outcome.decision.problem:
        return lines  # No placement was attempted, so nothing is proven.
    if outcome.decision.status is Status.INFEASIBLE:
        lines.append("Proven: there is no place for it as long as nothing changes.")
    elif outcome.decision.style:
        lines.append("Not proven: in style bayplan there may be a place for it.")
    elif outcome.decision.status is Status.LIMIT_REACHED:
        lines.append("Not proven: bayplan cannot tell whether there is a place for it.")
    return [*lines, *(change_lines(gang_changes(outcome)) if outcome.remedies else [])]


def _who_asks(shape: ShapeView) -> str:
    """`asks for  3 pods: `, `worker: 3 pods, each `."""
    pods = count(shape.pods, "pod")
    if not shape.groups:
        return f"asks for  {pods}: "
    return f"{_groups_text(shape.groups)}: {pods}, {'each ' if shape.pods > 1 else ''}"


def _groups_text(groups: Sequence[str]) -> str:
    more = len(groups) - MOST_GROUPS
    return ", ".join(groups[:MOST_GROUPS]) + (f" and {more} more groups" if more > 0 else "")


def room_table(levels: Sequence[str], shape: ShapeView) -> list[str]:
    """Per level, the number of domains that hold all pods of a shape, and the most that one holds."""
    rows = [
        (short, str(room.domains), str(room.holding_all), str(room.most), best_in(room))
        for short, room in zip(short_levels(levels), shape.before, strict=True)
    ]
    return table(
        ("level", "domains", "hold all", "most pods", "in"),
        rows,
        indent="  ",
        numbers=("domains", "hold all", "most pods"),
    )


def best_in(room: LevelRoom) -> str:
    """The domain with the most room by its path; a node by its name."""
    if not room.most:
        return "-"
    return room.best[-1] if room.level == NODE else path_text(room.best)
