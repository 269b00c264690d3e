"""Node selectors and affinity on a cluster of four: which nodes match, and how well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.plugins.node_affinity import NodeAffinity
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import node, pod

PLUGIN = NodeAffinity()
STATE = cluster(
    nodes=[
        node("fast", labels={"disk": "ssd", "cores": "64"}),
        node("slow", labels={"disk": "hdd", "cores": "8"}),
        node("odd", labels={"disk": "", "cores": "many"}),
        node("bare"),
    ]
)
ALL = {"fast", "slow", "odd", "bare"}


def matching(state: ClusterState = STATE, **spec: Any) -> set[str]:
    asked = state.classes.of(pod(**spec))
    together = PLUGIN.refusals(state, asked, slice(0, state.columns.size))
    one_by_one = [PLUGIN.refusal(state, asked, row) for row in range(state.columns.size)]
    assert together.tolist() == one_by_one
    return {name for name, row in state.rows.items() if not together[row]}


def required(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def rule(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    "expression, nodes",
    [
        (rule("disk", "In", "ssd", "nvme"), {"fast"}),
        (rule("disk", "In", "nvme"), set()),
        (rule("disk", "In"), set()),
        (rule("disk", "NotIn", "ssd"), {"slow", "odd", "bare"}),
        (rule("disk", "Exists"), {"fast", "slow", "odd"}),
        (rule("disk", "DoesNotExist"), {"bare"}),
        (rule("cores", "Gt", "8"), {"fast"}),
        (rule("cores", "Lt", "64"), {"slow"}),
        (rule("cores", "Gt", "few"), set()),
        (rule("cores", "Gt", "1", "2"), set()),
        (rule("rack", "NotIn", "r1"), ALL),
    ],
    ids=lambda value: " ".join([value["key"], value["operator"], *value["values"]]) if isinstance(value, dict) else "",
)
def test_operator(expression: Json, nodes: set[str]) -> None:
    assert matching(affinity=required({"matchExpressions": [expression]})) == nodes


@pytest.mark.parametrize(
    "spec, nodes",
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"fast"}, id="selector"),
        pytest.param({"nodeSelector": {"disk": "ssd", "cores": "8"}}, set(), id="all of a selector must hold"),
        pytest.param({"nodeSelector": {"disk": ""}}, {"odd"}, id="an empty value is a value"),
        pytest.param(
            {"affinity": required({"matchExpressions": [rule("disk", "Exists"), rule("cores", "Gt", "8")]})},
            {"fast"},
            id="all rules of a term must hold",
        ),
        pytest.param(
            {
                "affinity": required(
                    {"matchExpressions": [rule("disk", "In", "ssd")]}, {"matchExpressions": [rule("disk", "In", "hdd")]}
                )
            },
            {"fast", "slow"},
            id="one term suffices",
        ),
        pytest.param({"affinity": required({})}, set(), id="an empty term matches nothing"),
        pytest.param({"affinity": required()}, set(), id="no terms match nothing"),
        pytest.param(
            {"nodeSelector": {"cores": "64"}, "affinity": required({"matchExpressions": [rule("disk", "In", "hdd")]})},
            set(),
            id="selector and affinity must both hold",
        ),
        pytest.param(
            {"affinity": required({"matchFields": [rule("metadata.name", "In", "bare", "missing")]})},
            {"bare"},
            id="a node by name",
        ),
        pytest.param(
            {"affinity": required({"matchFields": [rule("metadata.name", "NotIn", "bare")]})},
            {"fast", "slow", "odd"},
            id="all nodes but one",
        ),
        pytest.param(
            {"affinity": required({"matchFields": [rule("spec.zone", "In", "x")]})}, set(), id="another field"
        ),
    ],
)
def test_required(spec: Json, nodes: set[str]) -> None:
    assert matching(**spec) == nodes


def test_a_relabelled_node_matches_anew() -> None:
    state = cluster(nodes=[node("a", labels={"disk": "hdd"}), node("b")])
    assert matching(state, nodeSelector={"disk": "ssd"}) == set()
    state.set_node(node("b", labels={"disk": "ssd"}))
    assert matching(state, nodeSelector={"disk": "ssd"}) == {"b"}


def test_preferences_score_in_percent_of_the_best_remaining_node() -> None:
    preferred = [
        {"weight": 30, "preference": {"matchExpressions": [rule("disk", "In", "ssd")]}},
        {"weight": 10, "preference": {"matchExpressions": [rule("disk", "Exists")]}},
    ]
    asked = STATE.classes.of(
        pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    )
    scores = dict(zip(STATE.names, PLUGIN.scores_among(STATE, asked, np.arange(4)).tolist(), strict=True))
    assert scores == {"fast": 100, "slow": 25, "odd": 25, "bare": 0}
    without_fast = np.array([STATE.rows[name] for name in ("slow", "bare")])
    assert PLUGIN.scores_among(STATE, asked, without_fast).tolist() == [100, 0]


def test_pods_without_wishes_are_not_looked_at() -> None:
    asked = STATE.classes.of(pod())
    assert (PLUGIN.applies(asked), PLUGIN.compares(STATE, asked)) == (False, False)
