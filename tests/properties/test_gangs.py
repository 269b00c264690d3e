"""Gangs on small random clusters, against a search that tries everything (`tests/exhaustive_gangs.py`).

What must start has a place exactly if the exhaustive search finds one, in exactly as few preferred domains; as much of
what may start does. Nothing is half placed, nothing changes before it is assumed, and every kubelet admits its pods in
the order of the seats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.engine.budget import Budget
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.attempt import GangAttempt
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import GangDecision, Group, Segments
from tests.exhaustive_gangs import (
    Cluster,
    best_domains,
    choices_of_groups,
    fewest_domains,
    place_in_group,
    with_members,
    with_wishes,
)
from tests.random_gangs import Case, numa_case, odd_case, plain_case, returning_case, tight_case

CHUNKS = 8
SHARES: dict[Callable[[int], Case], float] = {plain_case: 6 / 13, tight_case: 4 / 13, numa_case: 3 / 13}
OUT_OF_TIME = 800
LATE = 400
ODD = 800
RETURNING = 1600
WISHING = 400


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("make", SHARES)
def test_as_the_exhaustive_search_says(make: Callable[[int], Case], chunk: int, pytestconfig: pytest.Config) -> None:
    for seed in range(chunk, round(SHARES[make] * pytestconfig.getoption("--random-gangs")), CHUNKS):
        check(make(seed), f"{make.__name__}({seed})")


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("make", [plain_case, tight_case])
def test_what_is_said_without_an_exact_search_is_true(make: Callable[[int], Case], chunk: int) -> None:
    for seed in range(chunk, OUT_OF_TIME, CHUNKS):
        case = make(seed)
        tree = case.scheduler.trees.get(case.gang.topology)
        assert tree is not None
        if not tree.size:
            continue
        tried = GangAttempt(case.scheduler, case.gang, case.gang.root, tree, Budget(0.0)).place(case.gang.root)
        fewest = fewest_domains(case.cluster, case.gang.root)
        name = f"{make.__name__}({seed}): {tried.solution}"
        if tried.status is Status.INFEASIBLE:
            assert fewest is None, name
        elif tried.status is not Status.LIMIT_REACHED:
            assert fewest is not None, name
            assert tried.domains - tried.solution.gap <= fewest <= tried.domains, name
            assert (tried.status is Status.OPTIMAL) == (tried.solution.gap == 0), name


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_kubelet_refuses_a_seat_on_odd_machines_either(chunk: int) -> None:
    for seed in range(chunk, ODD, CHUNKS):
        case, name = odd_case(seed), f"odd_case({seed})"
        decision = schedule_gang(case.scheduler, case.gang)
        replay(case, decision, name)
        assert assume_gang(case.scheduler, case.gang, decision) is not None, f"{name}: a node says no"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_scheduler_that_waits_for_reports_promises_nothing_that_a_kubelet_refuses(chunk: int) -> None:
    for seed in range(chunk, LATE, CHUNKS):
        case = numa_case(seed)
        case.state.freshness.waits_for_reports = True
        decision = schedule_gang(case.scheduler, case.gang)
        replay(case, decision, f"numa_case({seed})")
        assert assume_gang(case.scheduler, case.gang, decision) is not None, f"numa_case({seed}): a node says no"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_members_that_come_back_stand_with_their_segments(chunk: int) -> None:
    for seed in range(chunk, RETURNING, CHUNKS):
        case, name = returning_case(seed), f"returning_case({seed})"
        decision = schedule_gang(case.scheduler, case.gang)
        fewest = fewest_domains(case.cluster, case.gang.root)
        assert decision.placed == (fewest is not None), f"{name}: {decision}"
        if fewest is None:
            assert decision.status is Status.INFEASIBLE, f"{name}: {decision}"
            continue
        assert (decision.status, decision.gap) == (Status.OPTIMAL, 0), f"{name}: {decision}"
        assert domains_of(case.cluster, decision, case.gang.root) == fewest, name
        assert segments_broken(case, decision) == [], name


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_as_many_segments_are_made_whole_again_as_can_be(chunk: int) -> None:
    for seed in range(chunk, WISHING, CHUNKS):
        case, name = returning_case(seed, wishes=True), f"returning_case({seed}, wishes=True)"
        decision = schedule_gang(case.scheduler, case.gang)
        wishes = wished_segments(case.gang.root)
        has_place = fewest_domains(case.cluster, case.gang.root, wishes) is not None
        assert decision.placed == has_place, f"{name}: {decision}"
        if has_place:
            choices = (lost for number in range(len(wishes) + 1) for lost in combinations(wishes, number))
            fewest = next(lost for lost in choices if fewest_domains(case.cluster, case.gang.root, lost) is not None)
            assert len(decision.relaxed) == len(fewest), f"{name}: {decision}"


def wished_segments(group: Group) -> list[tuple[Segments, int]]:
    """Segments that are only optional for and of which a pod waits, by layer and number."""
    return [
        (each, number)
        for each in group.segments
        if not each.required
        for number in sorted({place_in_group(pod) // each.size for pod in group.pods})
    ]


def segments_broken(case: Case, decision: GangDecision) -> list[str]:
    """Numbers that are not those of the pods' indices, and segments that are torn, or new ones beside others."""
    cluster, group = case.cluster, case.gang.root
    place = {each.name: each for each in cluster.in_tree}
    places = {pod_key(pod): place_in_group(pod) for pod in (*group.pods, *group.running)}
    node_of = {seat.pod: seat.node for seat in decision.seats} | {
        pod_key(pod): pod.spec.node_name for pod in group.running
    }
    broken = [f"{seat.pod} has rank {seat.rank}" for seat in decision.seats if seat.rank != places[seat.pod]]
    for each in group.segments:
        segments: dict[int, set[tuple[str, ...]]] = {}
        for key, number in places.items():
            segments.setdefault(number // each.size, set()).add(cluster.domain(place[node_of[key] or ""], each.level))
        broken += [f"segment {number} is torn" for number, domains in segments.items() if len(domains) > 1]
        if each.apart and len(set().union(*segments.values())) < len(segments):
            broken.append(f"segments of {each.size} are not apart")
    lowest = group.segments[-1].size
    return broken + [
        f"{seat.pod} in {seat.segment}" for seat in decision.seats if seat.segment != places[seat.pod] // lowest
    ]


def check(case: Case, name: str) -> None:
    before = picture(case.state)
    decision = schedule_gang(case.scheduler, case.gang)
    assert picture(case.state) == before, f"{name}: the state has changed"
    if not case.cluster.in_tree:
        assert decision.problem.startswith("topology: no node carries all labels"), name
        return
    expected = outcomes(case.cluster, case.gang.root)
    if not any(expected):  # also where no pod must start and none can
        assert (decision.status, len(decision.seats)) == (Status.INFEASIBLE, 0), f"{name}: {decision}"
        return
    seated = frozenset(seat.pod for seat in decision.seats)
    assert seated in expected, f"{name}: {sorted(seated)} are seated, not one of {[*map(sorted, expected)]}; {decision}"
    part = expected[seated]
    assert {pod_key(pod) for pod in case.gang.pods} - seated == set(decision.left_out), name
    assert decision.status is Status.OPTIMAL, f"{name}: {decision}"
    assert decision.gap == 0, name
    assert rules_broken(case, decision, part) == [], name
    assert sorted(decision.relaxed) == sorted(given_up(case.gang.root, part)), name
    assert all_domains_of(case.cluster, decision, part) == best_domains(case.cluster, part), name
    replay(case, decision, name)
    taken = assume_gang(case.scheduler, case.gang, decision)
    assert taken is not None, f"{name}: a node says no"
    assert len(taken) == len(seated)


def outcomes(cluster: Cluster, root: Group) -> dict[frozenset[str], Group]:
    """Every best part of a gang, by the pods in it: the most groups, then the most members, then the segments that are
    optional for.
    """
    feasible: list[tuple[int, int, Group]] = []
    for choice in choices_of_groups(root):
        least = fewest_domains(cluster, with_wishes(with_members(choice, {})))
        if least is not None:
            feasible.append((-sum(1 for _ in choice.every_group()), least, choice))
    best = min(((groups, least) for groups, least, _ in feasible), default=None)
    chosen = [choice for groups, least, choice in feasible if (groups, least) == best]
    found = [most_wishes(cluster, grown(cluster, choice)) for choice in chosen]
    return {frozenset(pod_key(pod) for group in part.every_group() for pod in group.pods): part for part in found}


def grown(cluster: Cluster, root: Group) -> Group:
    """Group after group takes as many members beyond its minimum as have a place."""
    extra: dict[str, int] = {}
    for group in root.every_group():
        unit = next((each.size for each in group.segments if each.required), 1)
        for number in range(0, len(group.pods) - group.least + 1, unit):
            larger = with_members(root, extra | {group.name: number})
            if fewest_domains(cluster, with_wishes(larger)) is not None:
                extra[group.name] = number
    return with_members(root, extra)


def most_wishes(cluster: Cluster, part: Group) -> Group:
    """With as many layers of segments that are optional for as have a place; the first of equally many."""
    wishes = [
        (group.name, each)
        for group in part.every_group()
        for each in group.segments
        if not each.required and len(group.pods) % each.size == 0
    ]
    choices = (choice for number in range(len(wishes), -1, -1) for choice in combinations(wishes, number))
    parts = (with_wishes(part, choice) for choice in choices)
    return next(each for each in parts if fewest_domains(cluster, each) is not None)


def given_up(root: Group, part: Group) -> list[str]:
    kept = {group.name: group.segments for group in part.every_group()}
    lost = [
        (group.name, each.size)
        for group in root.every_group()
        for each in group.segments
        if each not in kept.get(group.name, [each])
    ]
    return [f"segments of {size}{f' in group {name}' if name else ''}" for name, size in lost]


def rules_broken(case: Case, decision: GangDecision, part: Group) -> list[str]:
    """Groups and segments that are not in one domain, or that are not apart."""
    cluster = case.cluster
    place = {each.name: each for each in cluster.in_tree}
    node_of = {seat.pod: seat.node for seat in decision.seats}
    segment_of = {seat.pod: seat.segment for seat in decision.seats}
    broken = []
    for group in part.every_group():
        inside = [pod for inner in group.every_group() for pod in inner.pods]
        nodes = [node_of[pod_key(pod)] for pod in inside]
        nodes += [pod.spec.node_name or "" for inner in group.every_group() for pod in inner.running]
        if group.required and len({cluster.domain(place[each], group.required) for each in nodes if each in place}) > 1:
            broken.append(f"{group.name} is not in one {group.required}")
        for each in group.segments:
            pods = [pod_key(pod) for pod in group.pods]
            segments = [pods[first : first + each.size] for first in range(0, len(pods), each.size)]
            domains = [{cluster.domain(place[node_of[pod]], each.level) for pod in slice_} for slice_ in segments]
            if any(len(used) > 1 for used in domains):
                broken.append(f"a segment of {group.name} is not in one {each.level}")
            if each.apart and len(set.union(*domains, set())) < len(domains):
                broken.append(f"segments of {group.name} are not apart")
        if group.segments:
            ranks = {pod_key(pod): rank // group.segments[-1].size for rank, pod in enumerate(group.pods)}
            broken += [f"{pod} has segment {segment_of[pod]}" for pod in ranks if segment_of[pod] != ranks[pod]]
    return broken


def domains_of(cluster: Cluster, decision: GangDecision, part: Group) -> int:
    """How many preferred domains the groups use, running members included."""
    place = {each.name: each for each in cluster.in_tree}
    node_of: Mapping[str, str] = {seat.pod: seat.node for seat in decision.seats}
    total = 0
    for group in part.every_group():
        nodes = [node_of[pod_key(pod)] for inner in group.every_group() for pod in inner.pods]
        nodes += [pod.spec.node_name or "" for inner in group.every_group() for pod in inner.running]
        if group.preferred:
            total += len({cluster.domain(place[node], group.preferred) for node in nodes if node in place})
    return total


def all_domains_of(cluster: Cluster, decision: GangDecision, part: Group) -> tuple[int, ...]:
    """Preferred domains, then those of each level that is wider than what a group prefers, narrow ones first."""
    names = (*cluster.levels, "")
    wider = []
    for number in range(len(cluster.levels) - 1, -1, -1):
        widened = _with_preferred(part, cluster, names, number)
        wider.append(domains_of(cluster, decision, widened))
    return (domains_of(cluster, decision, part), *wider)


def _with_preferred(group: Group, cluster: Cluster, names: tuple[str, ...], number: int) -> Group:
    """The same groups, as if those that prefer a narrower level than this one preferred it."""
    own = -1
    if group.preferred:
        own = cluster.levels.index(group.preferred) if group.preferred in cluster.levels else len(cluster.levels)
    inner = tuple(_with_preferred(each, cluster, names, number) for each in group.groups)
    return replace(group, preferred=names[number] if own > number else None, groups=inner)


def replay(case: Case, decision: GangDecision, name: str) -> None:
    """Every kubelet admits the pods in the order of the seats."""
    pods = {pod_key(pod): pod for pod in case.gang.pods}
    for seat in decision.seats if case.kubelets else ():
        verdict = case.kubelets[seat.node].admit(seat.pod, effective_request(pods[seat.pod]))
        assert verdict.admitted, f"{name}: {seat.node} refuses {seat.pod}: {verdict.message}"


def picture(state: ClusterState) -> tuple[object, ...]:
    """All that must not change."""
    columns = state.columns
    arrays = (columns.free, columns.zone_available, columns.allocatable, columns.topology)
    logs = (state.usage_log.end, state.node_log.end)
    return (*(np.array(each).tobytes() for each in arrays), logs, tuple(state.pods.items()), tuple(state.waiting))
