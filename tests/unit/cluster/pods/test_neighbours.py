"""Pods that stand somewhere as newcomers see them: counted once, followed as they come, change
and go, found by labels.
"""

from __future__ import annotations

from copy import deepcopy

import pytest

from bayplan.cluster.loading import load_state
from bayplan.cluster.pods import neighbours as module
from bayplan.cluster.pods.label_selectors import EVERYTHING, NOTHING, Requirement, Selector
from bayplan.cluster.pods.neighbours import Neighbours
from bayplan.cluster.pods.terms import PodSelector, terms_of
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.wire.core_v1 import Metadata, Namespace, Pod
from tests.builders.neighbourhoods import apart, app_pod, drawn, on, racks, together


def those(app: str, *namespaces: str, by_labels: Selector = NOTHING) -> PodSelector:
    selector = Selector((Requirement("app", "In", (app,)),))
    return PodSelector(frozenset(namespaces or ("default",)), by_labels, selector)


EVERY_POD = PodSelector(frozenset(), EVERYTHING, EVERYTHING)


def standing(*pods: tuple[int, Pod]) -> Neighbours:
    found = Neighbours()
    for row, pod in pods:
        place(found, row, pod)
    return found


def place(found: Neighbours, row: int, pod: Pod) -> None:
    found.place(pod.metadata.name, row, pod, terms_of(pod))


def counts(found: Neighbours, *selectors: PodSelector, with_terminating: bool = True) -> dict[int, int]:
    tally = found.tally(selectors, with_terminating=with_terminating)
    return dict(zip(tally.rows.tolist(), tally.counts.astype(int).tolist(), strict=True))


def against(found: Neighbours, app: str) -> list[tuple[str, dict[int, int]]]:
    held = found.anti_affinity.against("default", {}, {"app": app})
    return [
        (each.term.topology_key, dict(zip(each.on.rows.tolist(), each.on.counts.tolist(), strict=True)))
        for each in held
    ]


class TestTallies:
    def test_pods_are_counted_by_row(self) -> None:
        found = standing(
            (0, app_pod("a", "web")), (0, app_pod("b", "web")), (3, app_pod("c", "web")), (3, app_pod("db"))
        )
        assert counts(found, those("web")) == {0: 2, 3: 1}
        assert counts(found, EVERY_POD) == {0: 2, 3: 2}

    def test_those_who_come_and_go_later_are_counted_too(self) -> None:
        found = standing((0, app_pod("a", "web")))
        assert counts(found, those("web")) == {0: 1}
        place(found, 1, app_pod("b", "web", labels={"new": "kind"}))
        place(found, 1, app_pod("c", "db"))
        assert counts(found, those("web")) == {0: 1, 1: 1}
        found.remove("a")
        found.remove("missing")
        assert counts(found, those("web")) == {1: 1}

    def test_a_pod_that_is_told_twice_counts_once_and_one_that_changes_counts_as_it_is(self) -> None:
        found = standing((0, app_pod("a", "web")))
        for row, app, expected in ((0, "web", {0: 1}), (2, "web", {2: 1}), (2, "db", {}), (2, "web", {2: 1})):
            place(found, row, app_pod("a", app))
            assert counts(found, those("web")) == expected

    def test_pods_that_are_leaving(self) -> None:
        found = standing((0, app_pod("a", "web", leaving=True)), (0, app_pod("b", "web")))
        assert counts(found, those("web")) == {0: 2}
        assert counts(found, those("web"), with_terminating=False) == {0: 1}

    def test_all_selectors_must_mean_a_pod(self) -> None:
        hot = PodSelector(frozenset(["default"]), NOTHING, Selector((Requirement("tier", "Exists"),)))
        found = standing((0, app_pod("a", "web")), (1, app_pod("b", "web", labels={"tier": "1"})))
        assert counts(found, those("web"), hot) == {1: 1}

    def test_namespaces_by_their_labels(self) -> None:
        blue = those("web", "nowhere", by_labels=Selector((Requirement("team", "In", ("blue",)),)))
        found = standing((0, app_pod("a", "web", namespace="shop")), (1, app_pod("b", "web", namespace="lab")))
        assert counts(found, blue) == {}
        found.set_namespace("shop", {"team": "blue"})
        assert counts(found, blue) == {0: 1}
        found.remove_namespace("shop")
        assert counts(found, blue) == {}

    def test_only_so_many_are_kept_and_the_oldest_is_counted_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_TALLIES", 1)
        found = standing((0, app_pod("a", "web")), (1, app_pod("db")))
        for _ in range(2):
            assert counts(found, those("web")) == {0: 1}
            assert counts(found, those("db")) == {1: 1}
        place(found, 2, app_pod("b", "web"))
        assert counts(found, those("web")) == {0: 1, 2: 1}


class TestTermsThatPodsHold:
    def test_those_that_mean_a_newcomer(self) -> None:
        found = standing(
            (0, app_pod("a", **apart("web"))),
            (0, app_pod("b", **apart("web"))),
            (1, app_pod("c", **apart("db", "rack"))),
        )
        assert against(found, "web") == [("kubernetes.io/hostname", {0: 2})]
        assert against(found, "db") == [("rack", {1: 1})]
        assert against(found, "other") == []

    def test_they_go_with_their_holders(self) -> None:
        found = standing(
            (0, app_pod("a", **apart("web"))),
            (1, app_pod("b", **drawn("web", 5))),
            (2, app_pod("c", **together("web"))),
        )
        left = []
        for name in "abc":
            found.remove(name)
            left.append(found.hold_terms)
        assert left == [True, True, False]
        assert against(found, "web") == []


def test_a_copy_goes_its_own_way() -> None:
    found = standing((0, app_pod("a", "web", **apart("web"))))
    copied = deepcopy(found)
    copied.remove("a")
    place(found, 1, app_pod("b", "web"))
    assert (counts(found, those("web")), counts(copied, those("web"))) == ({0: 1, 1: 1}, {})
    assert (found.hold_terms, copied.hold_terms) == (True, False)


class TestInTheState:
    def test_namespaces_of_a_dump_are_known_by_their_labels(self) -> None:
        shop = Namespace(metadata=Metadata(name="shop", labels={"team": "blue"}))
        state = load_state(ObjectSet(namespaces=[shop]))
        assert state.neighbours.labels_of_namespace("shop") == {"team": "blue"}
        assert state.neighbours.labels_of_namespace("lab") == {"kubernetes.io/metadata.name": "lab"}

    def test_pods_that_a_node_takes_with_it_come_back_with_it(self) -> None:
        state = racks("ab", on("n1", app_pod("a", "web")))
        assert counts(state.neighbours, those("web")) == {0: 1}
        before = state.nodes[0]
        state.remove_node("n1")
        assert counts(state.neighbours, those("web")) == {}
        assert before is not None
        state.set_node(before)
        assert counts(state.neighbours, those("web")) == {state.rows["n1"]: 1}

    def test_a_bound_pod_whose_terms_cannot_be_read_is_noted_and_counted_by_its_labels(self) -> None:
        state = racks("ab", on("n1", app_pod("a", "web", **apart("web", ""))))
        (problem,) = map(str, state.remarks)
        assert problem.startswith("Pod default/a: spec.affinity.podAntiAffinity.")
        assert problem.endswith(
            "[0].topologyKey: is missing: must be the key of a node label; its terms about other pods are ignored"
        )
        assert counts(state.neighbours, those("web")) == {0: 1}
        assert not state.neighbours.hold_terms

    def test_a_pod_that_ended_stands_nowhere(self) -> None:
        state = racks("ab", on("n1", app_pod("a", "web")))
        state.set_pod(on("n1", app_pod("a", "web", status={"phase": "Succeeded"})))
        assert counts(state.neighbours, those("web")) == {}
