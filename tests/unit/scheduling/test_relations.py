"""One pod's answer: its class's, with the nodes that neighbours close and the scores they give, and no cost where
no pod has terms.
"""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.explain.ranking import PluginScore, ranked
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.registry import build_plugin
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.scheduling.relations import answer_for, with_pods_as_they_are
from bayplan.scheduling.remedies import OtherRequest, remedies
from tests.builders.bodies import Json
from tests.builders.clusters import decide, place
from tests.builders.neighbourhoods import RACK, apart, app_pod, drawn, on, racks, spread, together

PROFILE = default_profile()


def causes(decision: Decision) -> list[tuple[str, str, int]]:
    assert decision.shortfall is not None
    return [(each.plugin, each.cause, len(each.nodes)) for each in decision.shortfall.causes]


def is_answer_of_class(state: ClusterState, pod: Pod) -> bool:
    answers, pod_class = ClassAnswers(state), state.classes.of(pod)
    of_class = answers.for_class(pod_class, PROFILE)
    return answer_for(state, pod, pod_class, PROFILE, answers) is of_class


@pytest.mark.parametrize(
    "standing, spec, same",
    [
        ({}, {}, True),
        (apart("other"), {}, True),
        (drawn("other", 5), {}, True),
        (spread("web"), {}, True),
        ({}, apart("missing"), True),
        ({}, apart("db"), False),
        (apart("web"), {}, False),
        (drawn("web", 5), {}, False),
        ({}, spread("web", required=False), False),
    ],
)
def test_the_classs_own_answer_is_used_while_no_pod_has_terms(standing: Json, spec: Json, *, same: bool) -> None:
    state = racks("ab", on("n1", app_pod("db", **standing)))
    assert is_answer_of_class(state, app_pod("new", "web", **spec)) is same


def test_replicas_that_want_a_node_of_their_own_get_one_until_there_is_none() -> None:
    state = racks("aab")
    replicas = [app_pod(f"web-{number}", "web", **apart("web")) for number in range(4)]
    assert {place(state, each).node for each in replicas[:3]} == {"n1", "n2", "n3"}
    assert causes(decide(state, replicas[3])) == [
        ("InterPodAffinity", "node(s) didn't match pod anti-affinity rules", 3)
    ]
    state.remove_pod("default/web-1")
    assert decide(state, replicas[3]).placed


def test_a_forgotten_decision_is_no_neighbour() -> None:
    state = racks("a")
    first, second = (app_pod(name, "web", **apart("web")) for name in ("one", "two"))
    decision = place(state, first)
    assert not decide(state, second).placed
    state.forget(decision.pod)
    assert decide(state, second).placed


def test_members_of_a_series_follow_the_first_and_spread_over_what_is_there() -> None:
    state = racks("aabb")
    series = [app_pod(f"web-{number}", "web", **together("web", RACK)) for number in range(3)]
    assert len({(place(state, each).node or "")[1] in "12" for each in series}) == 1
    evenly = [app_pod(f"even-{number}", "even", **spread("even")) for number in range(4)]
    racks_used = [(place(state, each).node or "")[1] in "12" for each in evenly]
    assert sorted(racks_used) == [False, False, True, True]


def test_every_filter_is_counted_for_the_nodes_that_it_refuses_first() -> None:
    state = racks("aab.", on("n1", app_pod("db")), on("n3", app_pod("big", cpu=8)))
    pod = app_pod("new", "web", cpu=2, **(apart("db", RACK) | spread("web")))
    assert causes(decide(state, pod)) == [
        ("NodeResourcesFit", "Insufficient cpu", 1),
        ("PodTopologySpread", "node(s) didn't match pod topology spread constraints (missing required label)", 1),
        ("InterPodAffinity", "node(s) didn't match pod anti-affinity rules", 2),
    ]


def test_preferences_decide_between_nodes_that_are_left() -> None:
    state = racks("abc", on("n2", app_pod("cache")), on("n3", app_pod("db")))
    wishes = {"affinity": apart("db")["affinity"] | drawn("cache", 100)["affinity"]}
    decision = decide(state, app_pod("new", "web", **wishes))
    assert decision.node == "n2"


def test_the_ranking_names_what_neighbours_gave() -> None:
    state = racks("abc", on("n2", app_pod("cache")))
    pod = app_pod("new", "web", **drawn("cache", 100))
    pod_class = state.classes.of(pod)
    answer = answer_for(state, pod, pod_class, PROFILE, ClassAnswers(state))
    candidates = ranked(state, pod_class, PROFILE, answer, most=3).candidates
    assert candidates[0].node == "n2"
    assert candidates[0].scores[-1] == PluginScore("InterPodAffinity", 100, 2)
    assert [each.score for each in candidates] == [
        sum(given.score * given.weight for given in each.scores) for each in candidates
    ]


def test_asking_for_less_does_not_help_against_neighbours() -> None:
    """On n1 a smaller pod would fit, but n1 is closed; on n2 there is room for one CPU."""
    state = racks("ab", on("n1", app_pod("db", cpu=6)), on("n2", app_pod("big", cpu=7)))
    pod = app_pod("new", cpu=4, **apart("db"))
    pod_class, answers = state.classes.of(pod), ClassAnswers(state)
    answer = answer_for(state, pod, pod_class, PROFILE, answers)
    found = remedies(state, pod_class, with_pods_as_they_are(state, pod, pod_class, PROFILE), answer)
    assert [each.amount for each in found if isinstance(each, OtherRequest)] == [1000]


@pytest.mark.parametrize("spec", [apart("web", ""), spread("web", skew=0), drawn("web", 101)])
def test_a_pod_whose_terms_cannot_be_read_is_named(spec: Json) -> None:
    with pytest.raises(InvalidObject, match=r"^Pod default/new: spec\."):
        decide(racks("a"), app_pod("new", "web", **spec))


def test_plugins_that_are_switched_off_say_nothing() -> None:
    state = racks("a", on("n1", app_pod("db", **apart("web"))))
    plain = Profile("plain", tuple(each for each in PROFILE.filters if each.name != "InterPodAffinity"), ())
    assert decide(state, app_pod("new", "web", **apart("db")), plain).placed
    only_scores = Profile("scores", plain.filters, ((build_plugin("InterPodAffinity", None), 2),))  # type: ignore[arg-type]
    assert decide(state, app_pod("new", "web", **drawn("db", -5)), only_scores).placed
