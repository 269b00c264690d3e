"""The text of a "no": the answer first, numbers that shrink, one cause per line, the smallest change last."""

from bayplan.explain.event import event_text
from bayplan.explain.placement import Outcome, outcome_text, outcomes_text
from bayplan.explain.refusal import Refusal
from bayplan.explain.stages import ENOUGH, Stage
from bayplan.explain.why import refusal_text
from bayplan.kube.core_v1 import Taint
from bayplan.scheduling.decision import CauseCount, Shortfall
from tests.unit.explain.small_clusters import cluster, guaranteed, node, outcome_of, zones

GPU = Taint(key="gpu", value="present", effect="NoSchedule")


def refused(outcome: Outcome) -> Refusal:
    assert outcome.refusal is not None
    return outcome.refusal


def test_the_whole_text() -> None:
    state = cluster(
        node("n1", 32),
        zones("n1", [10, 12], of=16),
        guaranteed("amf-0", 6, on="n1", in_zones='{"app": [0]}'),
        guaranteed("smf-0", 4, on="n1", in_zones='{"app": [1]}'),
        node("n2", 8),
        zones("n2", [4, 4], of=4),
        node("n3", 32, cordoned=True),
        zones("n3", [16, 16], of=16),
        node("n4", 32, taint=GPU),
        zones("n4", [16, 16], of=16),
    )
    text = refusal_text(refused(outcome_of(state, guaranteed("upf-0", 14))), "is Pending for 4m")
    assert text.splitlines() == [
        "telco/upf-0 is Pending for 4m: no node has the request inside one NUMA zone.",
        "  asks for  cpu 14  memory 1Gi  (Guaranteed, pod scope)",
        "    4 nodes",
        "    2 tolerated           2 cordoned (n3), untolerated taint (n4)",
        "    1 enough in total     1 short of cpu: n2",
        "    0 in one zone         1 fragmented: n1",
        "Nearest:  n1 zone 1 has cpu 12 of 14  (telco/smf-0 holds 4 there)",
        "          n2 has cpu 8 of 14 in total",
        "Would schedule now if:  cpu <= 12 (1 node)",
        "                   or:  a container could span NUMA zones (1 node)",
        "                   or:  n3 were uncordoned (1 node)",
        "                   or:  it tolerated gpu=present:NoSchedule (1 node)",
    ]


def test_a_pod_of_several_containers_says_what_each_asks_for() -> None:
    state = cluster(node("n1", 16), zones("n1", [4, 4], of=8, scope="container"))
    lines = refusal_text(refused(outcome_of(state, guaranteed("p", 0, app=6, log=1)))).splitlines()
    assert lines[1:4] == [
        "  asks for  cpu 7  memory 2Gi  (Guaranteed, container scope, 2 containers)",
        "    app  cpu 6  memory 1Gi",
        "    log  cpu 1  memory 1Gi",
    ]
    assert "Would schedule now if:  app: cpu <= 4 (1 node)" in lines


def test_an_empty_cluster_is_named_as_such() -> None:
    text = refusal_text(refused(outcome_of(cluster(), guaranteed("p", 1))))
    assert text.splitlines()[0] == "telco/p does not fit: the cluster has no nodes."
    assert "0 nodes" in text


def test_the_resource_that_every_node_lacks_is_in_the_first_line() -> None:
    outcome = outcome_of(cluster(node("n1", 4), node("n2", 4)), guaranteed("p", 8))
    assert outcome_text(outcome).startswith("telco/p does not fit: no node has enough cpu free.")


def test_names_are_left_out_where_there_is_no_room_for_them() -> None:
    names = tuple(f"rack{number}-{number % 7}" for number in range(160))
    stage = Stage(ENOUGH, 0, 180, (("hugepages-1Gi", names), ("cpu", names[:20])))
    assert stage.detail() == "short of hugepages-1Gi 160, cpu 20"


def test_one_pod_that_fits_gets_a_sentence_and_a_ranking() -> None:
    state = cluster(node("n1", 32), zones("n1", [2, 12], of=16), node("n2", 32), zones("n2", [16, 16], of=16))
    lines = outcome_text(outcome_of(state, guaranteed("p", 8))).splitlines()
    assert lines[0] == "telco/p fits: n2, NUMA zone 0"
    assert [line.split()[0] for line in lines[2:]] == ["node", "n2", "n1"]


def test_many_pods_get_a_table_and_reasons_only_where_something_is_wrong() -> None:
    state = cluster(node("n1", 32), zones("n1", [8, 12], of=16))
    outcomes = [outcome_of(state, guaranteed("small", 4)), outcome_of(state, guaranteed("large", 14))]
    lines = outcomes_text(outcomes).splitlines()
    assert lines[0] == "1 of 2 pods fit"
    assert lines[3].split()[:3] == ["telco/small", "n1", "0"]
    assert lines[4].split() == ["telco/large", "-", "-"]
    assert lines[6].startswith("telco/large does not fit: ")


def test_an_event_is_written_as_kube_scheduler_does_with_the_smallest_change_behind() -> None:
    state = cluster(node("n1", 32), zones("n1", [10, 12], of=16), node("n2", 32, cordoned=True))
    refusal = refused(outcome_of(state, guaranteed("p", 14)))
    assert event_text(refusal.shortfall, refusal.changes) == (
        "0/2 nodes are available: 1 no single NUMA zone holds the request, 1 node(s) were unschedulable. "
        "Would schedule now if: cpu <= 12 (1 node)."
    )


def test_an_event_never_exceeds_what_the_api_server_takes() -> None:
    causes = tuple(
        CauseCount("P", f"cause number {number} {'x' * 40}", ("n",) * (200 - number)) for number in range(100)
    )
    text = event_text(Shortfall(9999, causes, ()), ["cpu <= 1 (1 node)"])
    assert len(text.encode()) <= 1024
    assert text.startswith("0/9999 nodes are available: 200 cause number 0")
    assert text.endswith("more causes. Would schedule now if: cpu <= 1 (1 node).")
