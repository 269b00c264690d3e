"""InterPodAffinity on racks of a few nodes: which nodes are closed and in whose words, and which are liked best."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.inter_pod_affinity import (
    ANTI_AFFINITY,
    CAUSES,
    NO_AFFINITY,
    OTHERS_ANTI_AFFINITY,
    InterPodAffinity,
)
from bayplan.scheduling.relations import incoming_pod
from tests.builders.bodies import Json
from tests.builders.neighbourhoods import (
    RACK,
    REQUIRED,
    apart,
    app_pod,
    drawn,
    on,
    racks,
    term,
    together,
)
from tests.builders.objects import node


def closed(state: ClusterState, pod: Pod) -> list[int] | None:
    incoming = incoming_pod(state, pod, state.classes.of(pod))
    codes = None if incoming is None else InterPodAffinity().refusals_of(state, incoming)
    return None if codes is None else codes.tolist()


def scores(state: ClusterState, pod: Pod, plugin: InterPodAffinity | None = None) -> list[int] | None:
    incoming = incoming_pod(state, pod, state.classes.of(pod))
    assert incoming is not None
    found = (plugin or InterPodAffinity()).scores_of(state, incoming, np.arange(state.columns.size))
    return None if found is None else found.tolist()


class TestRequired:
    @pytest.mark.parametrize(
        "spec, codes",
        [
            ({}, None),
            (apart("db"), [ANTI_AFFINITY, 0, 0, 0]),
            (apart("db", RACK), [ANTI_AFFINITY, ANTI_AFFINITY, 0, 0]),
            (apart("missing"), None),
            (together("db"), [0, NO_AFFINITY, NO_AFFINITY, NO_AFFINITY]),
            (together("db", RACK), [0, 0, NO_AFFINITY, NO_AFFINITY]),
            (together("missing"), [NO_AFFINITY] * 4),
            (together("web", RACK), [0, 0, 0, NO_AFFINITY]),
        ],
        ids=[
            "says nothing",
            "not on its node",
            "not in its rack",
            "apart from no pod",
            "on its node",
            "in its rack",
            "together with no pod",
            "the first of its own group goes wherever the label is",
        ],
    )
    def test_own_terms(self, spec: Json, codes: list[int] | None) -> None:
        state = racks("aab.", on("n1", app_pod("db")))
        assert closed(state, app_pod("new", "web", **spec)) == codes

    def test_pods_that_stand_there_have_a_say_too(self) -> None:
        state = racks("aab", on("n1", app_pod("db", **apart("web", RACK))))
        assert closed(state, app_pod("new", "web")) == [OTHERS_ANTI_AFFINITY, OTHERS_ANTI_AFFINITY, 0]
        assert closed(state, app_pod("new", "other")) is None

    def test_the_first_rule_that_refuses_is_named(self) -> None:
        db, cache = app_pod("db", **apart("web", RACK)), app_pod("cache")
        state = racks("aab", on("n1", db), on("n3", cache))
        both = {"podAntiAffinity": {REQUIRED: [term("db")]}, "podAffinity": {REQUIRED: [term("cache", RACK)]}}
        own = {"podAntiAffinity": {REQUIRED: [term("db")]}}
        assert closed(state, app_pod("new", "web", affinity=own)) == [ANTI_AFFINITY, OTHERS_ANTI_AFFINITY, 0]
        assert closed(state, app_pod("new", "web", affinity=both)) == [NO_AFFINITY, NO_AFFINITY, 0]

    def test_one_pod_must_satisfy_all_affinity_terms(self) -> None:
        terms = [term("db"), {**term("db"), "labelSelector": {"matchLabels": {"tier": "hot"}}}]
        wanted = app_pod("new", affinity={"podAffinity": {REQUIRED: terms}})
        assert closed(racks("a", on("n1", app_pod("db")), on("n1", app_pod("x", labels={"tier": "hot"}))), wanted) == [
            1
        ]
        assert closed(racks("a", on("n1", app_pod("db", labels={"tier": "hot"}))), wanted) == [0]

    def test_the_first_of_a_group_waits_if_the_group_is_elsewhere(self) -> None:
        state = racks("ab", on("n1", app_pod("one", "web")))
        assert closed(state, app_pod("two", "web", **together("web", RACK))) == [0, NO_AFFINITY]

    def test_pods_that_are_leaving_count(self) -> None:
        state = racks("ab", on("n1", app_pod("db", leaving=True)))
        assert closed(state, app_pod("new", **apart("db"))) == [ANTI_AFFINITY, 0]

    @pytest.mark.parametrize(
        "fields, meant",
        [
            ({}, "own"),
            ({"namespaces": ["shop"]}, "shop"),
            ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, "shop"),
            ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "lab"}}}, "lab"),
            ({"namespaceSelector": {}}, "own shop lab"),
            ({"namespaces": ["lab"], "namespaceSelector": {"matchLabels": {"team": "blue"}}}, "shop lab"),
        ],
        ids=["its own", "named", "selected", "by the name that is a label", "all", "named or selected"],
    )
    def test_namespaces(self, fields: Json, meant: str) -> None:
        names = ("own", "shop", "lab")
        standing = [on(f"n{row}", app_pod("db", namespace=name)) for row, name in enumerate(names, start=1)]
        state = racks("abc", *standing)
        state.neighbours.set_namespace("shop", {"team": "blue"})
        codes = closed(state, app_pod("new", namespace="own", **apart("db", **fields)))
        assert codes == [ANTI_AFFINITY if name in meant.split() else 0 for name in names]

    def test_revisions_of_an_application(self) -> None:
        state = racks(
            "abc",
            on("n1", app_pod("old", "web", labels={"hash": "1"})),
            on("n2", app_pod("new", "web", labels={"hash": "2"})),
        )
        same = app_pod("x", "web", labels={"hash": "2"}, **apart("web", matchLabelKeys=["hash"]))
        other = app_pod("x", "web", labels={"hash": "2"}, **apart("web", mismatchLabelKeys=["hash"]))
        unlabelled = app_pod("x", "web", **apart("web", matchLabelKeys=["hash"]))
        assert closed(state, same) == [0, ANTI_AFFINITY, 0]
        assert closed(state, other) == [ANTI_AFFINITY, 0, 0]
        assert closed(state, unlabelled) == [ANTI_AFFINITY, ANTI_AFFINITY, 0]

    def test_two_pods_that_wait_for_each_other_both_wait(self) -> None:
        state = racks("ab")
        for own, other in (("hen", "egg"), ("egg", "hen")):
            assert closed(state, app_pod(own, **together(other))) == [NO_AFFINITY, NO_AFFINITY]

    def test_the_words_are_kube_schedulers(self) -> None:
        assert list(CAUSES.values()) == [
            "node(s) didn't match pod affinity rules",
            "node(s) didn't match pod anti-affinity rules",
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ]


class TestPreferred:
    def test_the_best_node_has_100_and_the_worst_none(self) -> None:
        state = racks("abc", on("n1", app_pod("db")), on("n2", app_pod("db-2", "db")), on("n2", app_pod("db-3", "db")))
        assert scores(state, app_pod("new", **drawn("db", 7))) == [50, 100, 0]
        assert scores(state, app_pod("new", **drawn("db", -7))) == [50, 0, 100]

    def test_no_pod_to_be_drawn_to(self) -> None:
        assert scores(racks("ab"), app_pod("new", **drawn("db", 7))) is None

    def test_preferences_of_those_that_stand_there(self) -> None:
        state = racks(
            "aab", on("n1", app_pod("db", **drawn("web", 10, RACK))), on("n3", app_pod("x", **drawn("web", -10)))
        )
        assert scores(state, app_pod("new", "web")) == [100, 100, 0]
        ignoring = InterPodAffinity(ignore_preferred_terms_of_existing_pods=True)
        assert scores(state, app_pod("new", "web"), ignoring) is None
        assert scores(state, app_pod("new", "web", **drawn("missing", 1)), ignoring) == [100, 100, 0]

    def test_what_others_require_counts_as_much_as_configured(self) -> None:
        follows = on("n1", app_pod("follower", "web", **together("web")))
        draws = on("n2", app_pod("x", **drawn("web", 10)))
        state = racks("abc", follows, draws)
        assert scores(state, app_pod("new", "web")) == [10, 100, 0]
        assert scores(state, app_pod("new", "web"), InterPodAffinity(hard_pod_affinity_weight=100)) == [100, 10, 0]
        assert scores(state, app_pod("new", "web"), InterPodAffinity(hard_pod_affinity_weight=0)) == [0, 100, 0]

    def test_nodes_that_are_not_left_do_not_stretch_the_scale(self) -> None:
        standing = [on(f"n{1 + number // 4}", app_pod(f"db-{number}", "db")) for number in range(7)]
        state = racks("abc", *standing)
        pod = app_pod("new", **drawn("db", 1))
        incoming = incoming_pod(state, pod, state.classes.of(pod))
        assert incoming is not None
        assert scores(state, pod) == [100, 75, 0]
        left = InterPodAffinity().scores_of(state, incoming, np.array([1, 2]))
        assert left is not None
        assert left.tolist() == [100, 0]


def test_a_node_that_changes_its_rack_takes_its_pods_along() -> None:
    state = racks("aab", on("n1", app_pod("db")))
    pod = app_pod("new", **apart("db", RACK))
    assert closed(state, pod) == [ANTI_AFFINITY, ANTI_AFFINITY, 0]
    state.set_node(node("n1", {"cpu": 8}, labels={RACK: "b"}))
    assert closed(state, pod) == [ANTI_AFFINITY, 0, ANTI_AFFINITY]
