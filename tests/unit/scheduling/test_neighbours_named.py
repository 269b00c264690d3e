"""A pod that neighbours keep out is told by which term, and which pod is behind it."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.explain.refusal import event_text
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.relations import answer_for, incoming_pod
from bayplan.scheduling.shortfall import verdict_on
from tests.builders.neighbourhoods import HOSTNAME, RACK, apart, app_pod, on, racks, spread, together

WEB = app_pod("web-0", "web")


def details(state: ClusterState, waiting: Pod) -> list[str]:
    decision = schedule_one(state, waiting, default_profile(), ClassAnswers(state))
    assert decision.shortfall is not None
    return [detail for cause in decision.shortfall.causes for detail in cause.details]


@pytest.mark.parametrize(
    "state, waiting, told",
    [
        (
            racks("aa", on("n1", app_pod("web-0", "web", **apart("web", RACK)))),
            app_pod("web-1", "web"),
            ["pod default/web-0 on n1 has podAntiAffinity to app=web (topologyKey rack); it is in rack=a"],
        ),
        (
            racks("aab", on("n2", WEB), on("n3", app_pod("web-9", "web"))),
            app_pod("web-1", "web", **apart("web", RACK)),
            ["podAntiAffinity[0] to app=web (topologyKey rack): pod default/web-0 on n2 is in rack=a"],
        ),
        (
            racks("a", on("n1", WEB)),
            app_pod("api", **together("db", RACK)),
            ["podAffinity[0] to app=db (topologyKey rack): such pods are nowhere"],
        ),
        (
            racks("ab.", on("n1", app_pod("db", cpu=8))),
            app_pod("api", **together("db", HOSTNAME)),
            [f"podAffinity[0] to app=db (topologyKey {HOSTNAME}): such pods are only in {HOSTNAME}=n1"],
        ),
        (
            racks("ab", on("n1", WEB), on("n1", app_pod("web-2", "web")), on("n2", app_pod("big", cpu=8))),
            app_pod("web-1", "web", **spread("web", RACK)),
            ["topologySpreadConstraints[0] (topologyKey rack, maxSkew 1, app=web): a has 2, the fewest is 0 in b"],
        ),
        (
            racks("."),
            app_pod("web-1", "web", **spread("web", RACK)),
            ["topologySpreadConstraints[0] (topologyKey rack, maxSkew 1, app=web): 1 without the label rack"],
        ),
    ],
    ids=["their anti-affinity", "its anti-affinity", "no company", "company elsewhere", "skew", "no label"],
)
def test_the_term_and_the_pod_are_named(state: ClusterState, waiting: Pod, told: list[str]) -> None:
    assert details(state, waiting) == told


def test_the_event_names_the_first_of_them() -> None:
    state = racks("a", on("n1", app_pod("web-0", "web", **apart("web"))))
    decision = schedule_one(state, app_pod("web-1", "web"), default_profile(), ClassAnswers(state))
    assert decision.shortfall is not None
    assert event_text(decision.shortfall) == (
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules "
        "(pod default/web-0 on n1 has "
        f"podAntiAffinity to app=web (topologyKey {HOSTNAME}); it is in {HOSTNAME}=n1)."
    )


def test_a_verdict_on_one_node_names_them_too() -> None:
    state, profile = racks("ab", on("n1", WEB)), default_profile()
    waiting = app_pod("web-1", "web", **apart("web", RACK))
    pod_class = state.classes.of(waiting)
    answer = answer_for(state, waiting, pod_class, profile, ClassAnswers(state))
    incoming = incoming_pod(state, waiting, pod_class)
    assert verdict_on(state, pod_class, profile, answer, 1, incoming).fits
    verdict = verdict_on(state, pod_class, profile, answer, 0, incoming)
    assert verdict.details == (
        "podAntiAffinity[0] to app=web (topologyKey rack): pod default/web-0 on n1 is in rack=a",
    )


def test_every_row_that_a_rule_refuses_has_a_detail() -> None:
    state = racks("aabbc.", *(on(f"n{number}", app_pod(f"web-{number}", "web")) for number in (1, 2, 3)))
    profile = default_profile()
    for spec in (
        apart("web", RACK),
        apart("web"),
        together("none", RACK),
        spread("web", RACK),
        spread("web", HOSTNAME),
    ):
        waiting = app_pod("new", "web", **spec)
        pod_class = state.classes.of(waiting)
        incoming = incoming_pod(state, waiting, pod_class)
        assert incoming is not None
        for _, plugin in profile.relation_filters:
            codes = plugin.refusals_of(state, incoming)
            if codes is None:
                continue
            for row in np.flatnonzero(codes):
                assert plugin.details(state, incoming, int(codes[row]), np.array([row]))
