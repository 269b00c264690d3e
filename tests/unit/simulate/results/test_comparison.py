"""Runs side by side: the answer in one sentence, a table that fits the screen, a document for programs."""

import json
from typing import Any

import pytest

from bayplan.explain.folding import fitting
from bayplan.simulate.results.comparison import Comparison, answer, comparison_document, figures
from bayplan.simulate.results.comparison_text import comparison_text
from bayplan.simulate.results.numbers import clock, percent
from bayplan.simulate.run import GangRun, Waiting, WorkloadResult
from tests.unit.simulate.small_runs import a_comparison, a_run, a_scenario, blind_run


@pytest.mark.parametrize(
    "comparison, sentence",
    [
        (a_comparison(), "bayplan: all 6 pods ran, none refused by a kubelet; blind: 4 ran, 40 refusals"),
        (a_comparison(a_run()), "bayplan: all 6 pods ran, none refused by a kubelet"),
        (
            a_comparison(a_run(), blind_run()),
            "blind: 4 of 6 pods ran, 40 refusals, 2 waiting; bayplan: 6 ran, none refused",
        ),
        (
            a_comparison(a_run(running=1234, wanted=5678, arrived=5678, given_up=44, waiting=4400)),
            "bayplan: 1,234 of 5,678 pods ran, none refused by a kubelet, 4,400 waiting, 44 given up",
        ),
        (a_comparison(a_run(running=0, finished=6)), "bayplan: all 6 pods ran, none refused by a kubelet"),
        (
            a_comparison(a_run(wanted=1, arrived=1, running=0, refused={"X": 1})),
            "bayplan: 0 of 1 pod ran, 1 refusal",
        ),
        (
            a_comparison(blind_run(interrupted=True), not_run=["bayplan"]),
            "interrupted at 2m10s: blind: 4 of 6 pods ran, 40 refusals, 2 waiting",
        ),
    ],
)
def test_the_answer_is_one_sentence_about_the_last_scheduler_first(comparison: Comparison, sentence: str) -> None:
    assert answer(comparison) == sentence
    assert comparison_text(comparison).partition("\n")[0] == sentence


@pytest.mark.parametrize(
    "changes, good",
    [
        ({}, True),
        ({"running": 2, "finished": 4}, True),
        # Although all run in the end, a kubelet had to say no.
        ({"refused": {"TopologyAffinityError": 1}, "attempts": 7}, False),
        ({"running": 5, "waiting": 1}, False),
        ({"running": 5, "given_up": 1}, False),
        ({"interrupted": True}, False),
    ],
)
def test_good_means_that_every_pod_ran_and_none_was_refused(changes: dict[str, Any], good: bool) -> None:
    assert a_comparison(blind_run(), a_run(**changes)).good is good


def test_the_whole_text() -> None:
    assert comparison_text(a_comparison()).splitlines() == [
        "bayplan: all 6 pods ran, none refused by a kubelet; blind: 4 ran, 40 refusals",
        "",
        "  3 nodes, 6 pods wanted, reports arrive after 5s, seed 7",
        "",
        "                               blind  bayplan",
        "  pods that ran               4 of 6   6 of 6",
        "  refused by a kubelet            40        0",
        "    TopologyAffinityError         38        0",
        "    UnexpectedAdmissionError       2        0",
        "  pods created again              40        0",
        "  waiting at the end               2        0",
        "  all pods started after           -       3s",
        "  cpu in use, mean              50 %     75 %",
        "  cpu in use, peak              75 %     75 %",
        "  memory in use, mean            8 %     12 %",
        "  NUMA zones per pod            1.50     1.00",
        "  distance within a pod         13.2     10.0",
        "  last event after             2m10s    2m10s",
        "",
        "blind: 1 workload with pods refused, waiting or given up",
        "  workload   kind        wanted  ran  refused  waiting  given up",
        "  telco/upf  ReplicaSet       6    4       40        2         0",
        "  2 of telco/upf wait: 0/3 nodes are available: 3 Insufficient cpu.",
    ]


def test_the_gangs_of_the_scheduler_that_is_judged_have_a_line_each() -> None:
    gangs = (
        GangRun("ml/train-0", "train", 5.0, 80.0, 8, "rack", ("b1/r1", "b1/r2"), ("segments of 4 in one rack",)),
        GangRun("ml/train-1", "train", 5.0, None, 0, "rack", ()),
        GangRun("ml/plain-0", "plain", None, None, 0, None, ()),
    )
    lines = comparison_text(a_comparison(blind_run(), a_run(gang_runs=gangs))).splitlines()
    at = lines.index("bayplan: 3 gangs")
    assert lines[at + 1 : at + 6] == [
        "  gang        arrived after  started after  pods  in",
        "  ml/train-0             5s          1m20s     8  b1/r[1-2]",
        "  ml/train-1             5s              -     0  -",
        "  ml/plain-0              -              -     0  -",
        "  ml/train-0 gave up segments of 4 in one rack",
    ]
    many = comparison_text(a_comparison(a_run(gang_runs=gangs * 10))).splitlines()
    assert "  and 10 more gangs" in many
    assert "  and 5 more gangs that gave up wishes" in many


def test_zones_that_were_decided_and_not_given_are_a_figure_of_their_own() -> None:
    """Who decides no zones has no number, and where everybody got what was decided there is nothing to say."""
    runs = (blind_run(), a_run("volcano", zones_decided=1200, zones_not_as_decided=8), a_run(zones_decided=1600))
    assert "  not in the zones decided         -  8 of 1,200  0 of 1,600" in comparison_text(a_comparison(*runs))
    assert "zones decided" not in comparison_text(a_comparison(a_run(zones_decided=6)))


def test_a_run_without_trouble_has_no_lines_about_workloads() -> None:
    assert "workload" not in comparison_text(a_comparison(a_run()))


def test_an_interrupted_comparison_says_when_and_what_was_not_run() -> None:
    text = comparison_text(a_comparison(blind_run(interrupted=True, arrived=5, attempts=45), not_run=["bayplan"]))
    assert "  interrupted; not run: bayplan" in text.splitlines()
    assert "    had not arrived" in text
    assert "2m10s (interrupted)" in text


def test_lines_stay_within_a_hundred_columns_however_long_names_and_reasons_are() -> None:
    name = "a-namespace-with-a-long-name/" + "and-a-workload-" * 4
    run = blind_run(
        workloads=tuple(WorkloadResult(f"{name}{number}", "ReplicaSet", 10**6, 4, 0, 2, 0, 9) for number in range(30)),
        waiting_pods=tuple(Waiting(f"{name}{number}", 2, "too little of everything, " * 9) for number in range(30)),
    )
    with fitting(100):
        lines = comparison_text(a_comparison(run)).splitlines()
    assert max(len(line) for line in lines) <= 100
    assert f"  {name}0" in lines
    assert "  and 20 more workloads" in lines
    assert "  and 25 more workloads that wait" in lines


def test_figures_that_say_nothing_are_left_out() -> None:
    plain = [figure.label for figure in figures([a_run()])]
    assert "finished" not in plain
    assert "given up" not in plain
    assert "finished" in [figure.label for figure in figures([a_run(), a_run(running=5, finished=1)])]
    assert "given up" in [figure.label for figure in figures([a_run(), a_run(running=5, given_up=1)])]


def test_the_document_holds_what_the_text_says() -> None:
    document = comparison_document(a_comparison())
    assert document["apiVersion"] == "bayplan.io/v1alpha1"
    assert document["kind"] == "SimulationComparison"
    assert document["answer"] == "bayplan: all 6 pods ran, none refused by a kubelet; blind: 4 ran, 40 refusals"
    assert document["good"] is True
    assert document["judged"] == "bayplan"
    assert document["scenario"] == {
        "name": "telco-edge",
        "seed": 7,
        "nodes": 3,
        "pods": 6,
        "reportDelaySeconds": 5.0,
    }
    blind = document["runs"][0]
    assert blind["pods"] == {
        "wanted": 6,
        "arrived": 6,
        "running": 4,
        "finished": 0,
        "waiting": 2,
        "givenUp": 0,
        "created": 46,
        "createdAgain": 40,
    }
    assert blind["refused"] == {
        "total": 40,
        "byReason": [
            {"reason": "TopologyAffinityError", "count": 38},
            {"reason": "UnexpectedAdmissionError", "count": 2},
        ],
    }
    assert blind["allRunningAtSeconds"] is None
    assert blind["waiting"] == [
        {"workload": "telco/upf", "pods": 2, "reason": "0/3 nodes are available: 3 Insufficient cpu."}
    ]
    assert blind["firstRefusals"][0]["node"] == "telco-1"
    assert [moment["refused"] for moment in blind["timeline"]] == [0, 1, 10, 40]


def test_the_same_runs_give_the_same_document() -> None:
    assert json.dumps(comparison_document(a_comparison())) == json.dumps(comparison_document(a_comparison()))


def test_remarks_of_the_scenario_and_of_runs_appear_once() -> None:
    left_out = "pod telco/amf-0 on node telco-1 is left out: TopologyAffinityError"
    runs = (blind_run(remarks=(left_out,)), a_run(remarks=(left_out,)))
    comparison = a_comparison(*runs, scenario=a_scenario(remarks=("s.yaml:3: lasts: is short",)))
    assert comparison.remarks == ("s.yaml:3: lasts: is short", left_out)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0s"),
        (0.04, "0s"),
        (0.35, "0.3s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m"),
        (130, "2m10s"),
        (3600, "1h"),
        (3900, "1h05m"),
        (90_000, "25h"),
    ],
)
def test_simulated_time_is_short_and_never_sixty_seconds(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    "share, text",
    [(0, "0 %"), (0.004, "<1 %"), (0.61, "61 %"), (0.999, "99 %"), (1.0, "100 %")],
)
def test_only_what_is_full_is_a_hundred_percent(share: float, text: str) -> None:
    assert percent(share) == text
