"""PodTopologySpread on racks of a few nodes: which nodes would be one too many, and which are emptiest."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod, Service
from bayplan.plugins.pod_topology_spread import CAUSES, NO_LABEL, SYSTEM_DEFAULTS, UNEVEN, ZONE, PodTopologySpread
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.relations import PodAnswer, answer_for, incoming_pod
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.neighbourhoods import HOSTNAME, RACK, app_pod, on, racks, spread
from tests.builders.objects import node

PLUGIN = PodTopologySpread()


def closed(state: ClusterState, pod: Pod) -> list[int] | None:
    incoming = incoming_pod(state, pod, state.classes.of(pod))
    codes = None if incoming is None else PLUGIN.refusals_of(state, incoming)
    return None if codes is None else codes.tolist()


def scores(state: ClusterState, pod: Pod, rows: list[int] | None = None) -> list[int] | None:
    incoming = incoming_pod(state, pod, state.classes.of(pod))
    assert incoming is not None
    found = PLUGIN.scores_of(state, incoming, np.array(range(state.columns.size) if rows is None else rows))
    return None if found is None else found.tolist()


def webs(*nodes: str, leaving: bool = False) -> list[Pod]:
    return [on(name, app_pod(f"web-{number}", "web", leaving=leaving)) for number, name in enumerate(nodes)]


class TestMust:
    @pytest.mark.parametrize(
        "standing, spec, codes",
        [
            ((), spread("web"), [0, 0, 0]),
            (("n1",), spread("web"), [UNEVEN, UNEVEN, 0]),
            (("n1",), spread("web", skew=2), [0, 0, 0]),
            (("n1", "n2", "n3"), spread("web"), [UNEVEN, UNEVEN, 0]),
            (("n1", "n3"), spread("web", HOSTNAME), [UNEVEN, 0, UNEVEN]),
            ((), spread("web", minDomains=3), [0, 0, 0]),
            (("n1", "n3"), spread("web", minDomains=3), [UNEVEN] * 3),
            (("n1", "n3"), spread("web", minDomains=2), [0, 0, 0]),
            (("n1", "n1"), spread("other"), [0, 0, 0]),
            (("n1",), spread("web", required=False), None),
        ],
        ids=[
            "no pod yet",
            "one in a rack",
            "a skew of two",
            "two against one",
            "by node",
            "too few racks, no pod yet",
            "too few racks count as an empty one",
            "enough racks",
            "others are counted",
            "a wish closes nothing",
        ],
    )
    def test_one_more_would_be_too_many(self, standing: tuple[str, ...], spec: Json, codes: list[int] | None) -> None:
        assert closed(racks("aab", *webs(*standing)), app_pod("new", "web", **spec)) == codes

    def test_a_pod_that_is_not_one_of_those_it_counts_adds_nothing(self) -> None:
        state = racks("ab", *webs("n1"))
        assert closed(state, app_pod("new", "other", **spread("web"))) == [0, 0]

    def test_nodes_without_the_label(self) -> None:
        assert closed(racks("a."), app_pod("new", "web", **spread("web"))) == [0, NO_LABEL]

    def test_nodes_that_lack_a_label_are_counted_for_no_constraint(self) -> None:
        state = racks("ab", *webs("n1"))
        state.set_node(node("n3", {"cpu": 8}, labels={RACK: "c"}))
        rules = spread("web")["topologySpreadConstraints"] + spread("web", HOSTNAME)["topologySpreadConstraints"]
        pod = app_pod("new", "web", topologySpreadConstraints=rules)
        assert closed(state, pod) == [UNEVEN, 0, NO_LABEL]
        state.remove_pod("default/web-0")
        state.set_pod(on("n3", app_pod("web-1", "web")))
        assert closed(state, pod) == [0, 0, NO_LABEL]

    def test_pods_that_are_leaving_and_pods_of_other_namespaces_do_not_count(self) -> None:
        elsewhere = on("n1", app_pod("web-9", "web", namespace="lab"))
        state = racks("ab", *webs("n1", leaving=True), elsewhere)
        assert closed(state, app_pod("new", "web", **spread("web"))) == [0, 0]

    def test_an_empty_or_absent_selector_matches_no_pod(self) -> None:
        state = racks("ab", *webs("n1", "n1"))
        assert closed(state, app_pod("new", "web", **spread("web", labelSelector={}))) == [0, 0]
        assert closed(state, app_pod("new", "web", **spread("web", labelSelector=None))) == [0, 0]

    def test_revisions_are_spread_by_themselves(self) -> None:
        state = racks("ab", on("n1", app_pod("web-0", "web", labels={"hash": "1"})))
        spec = spread("web", matchLabelKeys=["hash"])
        assert closed(state, app_pod("new", "web", labels={"hash": "1"}, **spec)) == [UNEVEN, 0]
        assert closed(state, app_pod("new", "web", labels={"hash": "2"}, **spec)) == [0, 0]

    @pytest.mark.parametrize(
        "policy, codes", [({}, [0, 0, 0]), ({"nodeAffinityPolicy": "Ignore"}, [UNEVEN, UNEVEN, 0])]
    )
    def test_nodes_that_the_pod_does_not_want(self, policy: Json, codes: list[int]) -> None:
        """Rack b is not wanted: whether its emptiness counts is up to the policy."""
        state = racks("aab", *webs("n1"))
        assert closed(state, app_pod("new", "web", nodeSelector={RACK: "a"}, **spread("web", **policy))) == codes

    @pytest.mark.parametrize("policy, codes", [({}, [UNEVEN, 0]), ({"nodeTaintsPolicy": "Honor"}, [0, 0])])
    def test_nodes_with_taints(self, policy: Json, codes: list[int]) -> None:
        state = racks("a", *webs("n1"))
        taints = [{"key": "gpu", "effect": "NoSchedule"}]
        state.set_node(node("n2", {"cpu": 8}, labels={RACK: "b"}, taints=taints))
        assert closed(state, app_pod("new", "web", **spread("web", **policy))) == codes

    def test_the_words_are_kube_schedulers(self) -> None:
        assert CAUSES == {
            UNEVEN: "node(s) didn't match pod topology spread constraints",
            NO_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
        }


class TestShould:
    def test_emptier_places_are_better(self) -> None:
        """Counts 2, 1 and 0 in three racks weigh ln 5 each: 3.2, 1.6 and 0, rounded 3, 2 and 0."""
        assert round(2 * math.log(5)) == 3
        assert round(math.log(5)) == 2
        state = racks("abc", *webs("n1", "n1", "n2"))
        assert scores(state, app_pod("new", "web", **spread("web", required=False))) == [0, 33, 100]

    def test_a_larger_skew_waters_differences_down(self) -> None:
        state = racks("abc", *webs("n1", "n1", "n2"))
        assert scores(state, app_pod("new", "web", **spread("web", required=False, skew=5))) == [57, 71, 100]

    def test_no_pod_is_counted(self) -> None:
        assert scores(racks("ab"), app_pod("new", "web", **spread("web", required=False))) == [100, 100]

    def test_a_node_without_the_label_gets_nothing(self) -> None:
        assert scores(racks("a."), app_pod("new", "web", **spread("web", required=False))) == [100, 0]
        assert scores(racks(".."), app_pod("new", "web", **spread("web", required=False))) == [0, 0]

    def test_by_node_only_its_own_pods_count(self) -> None:
        state = racks("aab", *webs("n1", "n2", "n2"))
        assert scores(state, app_pod("new", "web", **spread("web", HOSTNAME, required=False))) == [33, 0, 100]

    def test_only_nodes_that_are_left_are_compared(self) -> None:
        state = racks("abc", *webs("n1", "n1", "n2"))
        assert scores(state, app_pod("new", "web", **spread("web", required=False)), [0, 1]) == [33, 100]

    def test_what_must_be_does_not_score(self) -> None:
        assert scores(racks("ab"), app_pod("new", "web", **spread("web"))) is None


class TestSystemDefaults:
    """Nodes n1 and n2 in zone a, n3 in zone b, n4 in none. Pods of a Service stand on n1, n1 and n3."""

    PROFILE = Profile("default-scheduler", (), ((PodTopologySpread(SYSTEM_DEFAULTS), 1),))

    def scores(self, pod: Pod) -> list[int] | None:
        state = cluster(nodes=[node(name, labels=self.labels(name)) for name in ("n1", "n2", "n3", "n4")])
        for standing in webs("n1", "n1", "n3"):
            state.set_pod(standing)
        selects = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
        state.owner_selectors.set(msgspec.convert(selects, Service))
        answer = answer_for(state, pod, state.classes.of(pod), self.PROFILE, ClassAnswers(state))
        return answer.total_score.tolist() if isinstance(answer, PodAnswer) else None

    def labels(self, name: str) -> dict[str, str]:
        zones = {"n1": "a", "n2": "a", "n3": "b"}
        return {HOSTNAME: name, **({ZONE: zones[name]} if name in zones else {})}

    def test_pods_of_a_service_spread_over_nodes_and_zones(self) -> None:
        """Of 4 nodes and 3 zones (none is one): pods * ln(n + 2), plus a skew of 2 on nodes and 4 in a zone."""
        by_node, by_zone = math.log(6), math.log(5)
        full = [2 * by_node + 2 + 2 * by_zone + 4, 2 + 2 * by_zone + 4, by_node + 2 + by_zone + 4, 2]
        whole = [math.floor(each + 0.5) for each in full]
        expected = [100 * (max(whole) + min(whole) - each) // max(whole) for each in whole]
        assert self.scores(app_pod("new", "web")) == expected

    def test_pods_without_a_service_and_pods_with_constraints_have_no_defaults(self) -> None:
        assert self.scores(app_pod("new", "other")) is None
        assert self.scores(app_pod("new", "web", **spread("web", required=True))) is None
