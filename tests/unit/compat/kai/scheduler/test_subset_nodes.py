"""Which node sets are tried for a sub-group, in which order, and what is said if there are none."""

import pytest

from bayplan.compat.kai.scheduler.model import Node, Task
from bayplan.compat.kai.scheduler.subset_nodes import Asker, NodeSets, node_scores, relevant_levels, subset_nodes
from bayplan.compat.kai.scheduler.tree import ROOT, build_tree
from bayplan.kube.wire.kai_scheduling_v2alpha2 import TopologyConstraint
from tests.unit.compat.kai.scheduler.small_clusters import TOPOLOGY, nodes, tasks, within

NO_SUCH_LEVEL = (
    "topology constraint error: sub-group workers specified '{}' as the {} topology constraint level, "
    "but the topology tree 'dc' does not contain a level with this name"
)
TOO_LITTLE = (
    "topology dc, requirement rack couldn't be satisfied for job <ml/train>{}: not enough "
    "resources in {} to allocate the job"
)

TREES = {TOPOLOGY.name: build_tree(TOPOLOGY, nodes("z1/r1: 8"))}


def asked(
    layout: tuple[Node, ...],
    constraint: TopologyConstraint | None,
    wanted: tuple[Task, ...],
    *,
    given: tuple[Node, ...] | None = None,
    active_on: frozenset[str] = frozenset(),
    sub_group: str = "",
) -> NodeSets:
    free = {node.name: node.idle for node in layout}
    trees = {TOPOLOGY.name: build_tree(TOPOLOGY, layout)}
    asker = Asker("ml", "train", sub_group, constraint, active_on)
    return subset_nodes(asker, wanted, layout if given is None else given, trees, free.__getitem__)


def names(found: NodeSets) -> list[str]:
    return [" ".join(node.name for node in nodes) for nodes in found.sets]


@pytest.mark.parametrize(
    "constraint, expected",
    [
        (None, ["n0 n1 n2 n3"]),
        (within(required="rack"), ["n3", "n0 n1"]),
        (within(required="zone"), ["n3", "n0 n1 n2"]),
        (within(preferred="rack"), ["n3", "n0 n1", "n3", "n0 n1 n2", "n0 n1 n2 n3"]),
        (within(preferred="zone"), ["n3", "n0 n1 n2", "n0 n1 n2 n3"]),
        (within(required="zone", preferred="rack"), ["n3", "n0 n1", "n3", "n0 n1 n2"]),
        (within(required="rack", preferred="rack"), ["n3", "n0 n1"]),
    ],
)
def test_domains_that_hold_the_tasks_the_fullest_of_the_narrowest_level_first(
    constraint: TopologyConstraint | None, expected: list[str]
) -> None:
    layout = nodes("z1/r1: 3 3, z1/r2: 1, z2/r1: 4")
    assert names(asked(layout, constraint, tasks(2, 2))) == expected


def test_without_tasks_everything_is_given_on() -> None:
    assert names(asked(nodes("z1/r1: 0 0"), within(required="rack"), ())) == ["n0 n1"]


def test_once_pods_run_only_their_required_domain_is_left() -> None:
    layout = nodes("z1/r1: 8, z2/r1: 4, z2/r2: 8")
    assert names(asked(layout, within(required="zone"), tasks(2), active_on=frozenset({"n0"}))) == ["n0"]
    running = frozenset({"n2"})
    assert names(asked(layout, within("zone", preferred="rack"), tasks(2), active_on=running)) == ["n1", "n2", "n1 n2"]
    assert names(asked(layout, within(preferred="zone"), tasks(2), active_on=running))[0] == "n0"


def test_only_nodes_that_were_given_are_given_on_though_all_of_a_domain_count() -> None:
    layout = nodes("z1/r1: 2 2, z1/r2: 2 2")
    assert names(asked(layout, within(required="rack"), tasks(2, 2), given=(layout[0], layout[2]))) == ["n0", "n2"]


def test_a_level_wider_than_where_the_given_nodes_are_is_never_counted() -> None:
    layout = nodes("z1/r1: 4 4")
    found = asked(layout, within(required="zone"), tasks(1, 1))
    assert found.problems[-1] == "topology dc, requirement zone couldn't be satisfied for job <ml/train>"
    assert names(asked(layout, within(required="zone", preferred="rack"), tasks(1, 1))) == ["n0 n1"]


@pytest.mark.parametrize(
    "layout, sub_group, constraint, problems",
    [
        ("z1/r1: 8", "", within("rack", topology="lost"), ("Requested topology lost does not exist",)),
        (
            "z1/r1: 1, z2/r1: 1",
            "",
            within("rack"),
            (TOO_LITTLE.format("", "the cluster"),),
        ),
        (
            "z1/r1: 1, z1/r2: 2",
            "workers",
            within("rack"),
            (TOO_LITTLE.format(", subgroup workers", "z1"),),
        ),
        (
            "z1/r1: 3, z1/r2: 2",
            "default",
            within("rack"),
            (
                "node-group z1.r1 can allocate only 1 of 2 required pods",
                "node-group z1.r2 can allocate only 1 of 2 required pods",
                "topology dc, requirement rack couldn't be satisfied for job <ml/train>",
            ),
        ),
    ],
)
def test_why_there_is_no_node_set(
    layout: str, sub_group: str, constraint: TopologyConstraint, problems: tuple[str, ...]
) -> None:
    found = asked(nodes(layout), constraint, tasks(2, 2), sub_group=sub_group)
    assert (found.sets, found.problems) == ((), problems)


def test_what_a_domain_lacks_is_named_where_only_sums_are_compared() -> None:
    found = asked(nodes("z1/r1: 3, z1/r2: 3"), within("rack"), (*tasks(4), *tasks(0, name="cpu-only")))
    assert found.problems[:2] == ("node-group(s) didn't have enough resources: GPUs",) * 2


@pytest.mark.parametrize(
    "constraint, expected",
    [
        (within("zone"), ["zone"]),
        (within("rack"), ["rack"]),
        (within(preferred="rack"), ["rack", "zone", ROOT]),
        (within(preferred="zone"), ["zone", ROOT]),
        (within("zone", "rack"), ["rack", "zone"]),
        (within("zone", "zone"), ["zone"]),
        (within(), "no topology constraints were found for subgroup workers, with topology name dc"),
        (
            within("row", "rack"),
            NO_SUCH_LEVEL.format("row", "required"),
        ),
        (
            within(preferred="row"),
            NO_SUCH_LEVEL.format("row", "preferred"),
        ),
        (
            within("rack", "zone"),
            NO_SUCH_LEVEL.format("zone", "preferred"),
        ),
    ],
)
def test_levels_to_search(constraint: TopologyConstraint, expected: list[str] | str) -> None:
    assert relevant_levels("workers", constraint, TREES["dc"]) == expected


def test_the_default_pod_set_is_called_the_workload() -> None:
    assert str(relevant_levels("default", within("row"), TREES["dc"])).startswith(
        "topology constraint error: workload specified"
    )


@pytest.mark.parametrize(
    "domains, scores",
    [(1, [10]), (2, [5, 10]), (3, [3, 6, 10]), (4, [2, 5, 7, 10]), (12, [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10])],
)
def test_scores_rise_in_ten_steps_so_more_than_ten_domains_share_some(domains: int, scores: list[int]) -> None:
    layout = nodes(", ".join(f"z1/r{number:02}: 8" for number in range(domains)))
    tree = build_tree(TOPOLOGY, layout)
    assert list(node_scores(tree.root, "rack", {}).values()) == [10_000 * score for score in scores]


def test_the_emptiest_preferred_domain_scores_highest() -> None:
    found = asked(nodes("z1/r1: 8, z1/r2: 2, z1/r3: 4"), within(preferred="rack"), tasks(1))
    assert found.scores == {"n1": 30_000, "n2": 60_000, "n0": 100_000}
