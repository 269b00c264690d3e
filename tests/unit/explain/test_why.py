"""The text of a "no": the answer first, numbers that shrink, one cause per line, the smallest change last."""

from bayplan.explain.folding import fitting
from bayplan.explain.headline import headline
from bayplan.explain.placement import PodOutcome, outcome_text, outcomes_text
from bayplan.explain.refusal import Refusal, event_text, refusal_of
from bayplan.explain.stages import ENOUGH, FilterStage, StageCause, stages_of
from bayplan.explain.why import refusal_text
from bayplan.kube.wire.core_v1 import Metadata, Node, Taint
from bayplan.scheduling.decision import CauseCount, Decision, NearestNode, Shortfall
from bayplan.scheduling.profile import default_profile
from tests.unit.explain.small_clusters import cluster, guaranteed, node, outcome_of, zones

GPU = Taint(key="gpu", value="present", effect="NoSchedule")


def refused(outcome: PodOutcome) -> Refusal:
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
        "telco/upf-0 is Pending for 4m: no schedulable node has the request inside one NUMA zone.",
        "  asks for  cpu 14  memory 1Gi  (Guaranteed, pod scope)",
        "    4 nodes",
        "    2 tolerated        2 cordoned (n3), taint gpu=present:NoSchedule (n4)",
        "    1 large enough     1 too small in cpu: n2",
        "    0 in one zone      1 fragmented: n1",
        "Nearest:  n1 zone 1 has cpu 12 of 14  (telco/smf-0 holds 4 there)",
        "Would schedule now if:  cpu 12 instead of 14 (1 node)",
        "                   or:  the nodes' topologyManagerPolicy were best-effort (1 node)",
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
    assert "Would schedule now if:  app: cpu 4 instead of 6 (1 node)" in lines


def test_an_empty_cluster_is_named_as_such() -> None:
    text = refusal_text(refused(outcome_of(cluster(), guaranteed("p", 1))))
    assert text.splitlines()[0] == "telco/p does not fit: the cluster has no nodes."
    assert "0 nodes" in text


def test_the_resource_that_every_node_lacks_is_in_the_first_line() -> None:
    running = guaranteed("amf-0", 4, on="n1"), guaranteed("amf-1", 4, on="n2")
    outcome = outcome_of(cluster(node("n1", 8), node("n2", 8), *running), guaranteed("p", 8))
    assert outcome_text(outcome).startswith("telco/p does not fit: no node has enough cpu free.")


def test_a_plugin_that_is_asked_last_is_told_with_the_nodes_that_it_was_asked_about() -> None:
    last = CauseCount("VolumeBinding", "node(s) didn't find available persistent volumes to bind", ("n2",))
    short, cordoned = (
        CauseCount("NodeResourcesFit", "Insufficient cpu", ("n1",)),
        CauseCount("NodeUnschedulable", "", ("n1",)),
    )
    state = cluster(node("n1", 1), node("n2", 1))
    pod = state.classes.of(guaranteed("p", 1))
    sentences = []
    for before in ((), (short,), (cordoned,)):
        shortfall = Shortfall(1 + len(before), (*before, last), matching=2, matter=frozenset(state.rows))
        sentences.append(headline(state, pod, shortfall, stages_of(shortfall, pod, default_profile())))
    assert sentences == [
        f"no node can reach its volumes: {last.cause}",
        f"no remaining node can reach its volumes: {last.cause}",
        f"no schedulable node can reach its volumes: {last.cause}",
    ]


def test_names_are_left_out_where_there_is_no_room_for_them() -> None:
    names = tuple(f"rack{number}-{number % 7}" for number in range(160))
    stage = FilterStage(ENOUGH, 0, (StageCause("hugepages-1Gi", names), StageCause("cpu", names[:20])))
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
    assert lines[0] == "1 of 2 pods fits"
    assert lines[3].split()[:3] == ["telco/small", "n1", "0"]
    assert lines[4].split() == ["telco/large", "-", "-"]
    assert lines[6].startswith("telco/large does not fit: ")


def test_an_event_is_written_as_kube_scheduler_does_with_the_smallest_change_behind() -> None:
    state = cluster(node("n1", 32), zones("n1", [10, 12], of=16), node("n2", 32, cordoned=True))
    refusal = refused(outcome_of(state, guaranteed("p", 14)))
    assert event_text(refusal.shortfall, refusal.changes) == (
        "0/2 nodes are available: 1 no single NUMA zone holds the request, 1 node(s) were unschedulable. "
        "Would schedule now if: cpu 12 instead of 14 (1 node)."
    )


def test_an_event_never_exceeds_what_the_api_server_takes() -> None:
    causes = tuple(
        CauseCount("P", f"cause number {number} {'x' * 40}", ("n",) * (200 - number)) for number in range(100)
    )
    text = event_text(Shortfall(9999, causes, ()), ["cpu 1 instead of 2 (1 node)"])
    assert len(text.encode()) <= 1024
    assert text.startswith("0/9999 nodes are available: 200 cause number 0")
    assert text.endswith("more causes. Would schedule now if: cpu 1 instead of 2 (1 node).")


def test_stages_go_from_loose_to_strict() -> None:
    """Every count is of nodes that passed all that stands above: `enough in zones` comes before
    the rules of policies.
    """
    state = cluster(
        *(node(f"n{number}", 32) for number in range(4)),
        zones("n0", [3, 3], of=16),
        zones("n1", [10, 10], of=16),
        zones("n2", [10, 10], of=16, policy="restricted"),
        zones("n3", [3, 3], of=16, policy="best-effort"),
    )
    lines = refusal_text(refused(outcome_of(state, guaranteed("p", 14)))).splitlines()
    assert lines[0] == "telco/p does not fit: no node has the request in the NUMA zones that its policy allows."
    assert lines[2:5] == [
        "    4 nodes",
        "    2 enough in zones      2 zones hold too little in sum: n[0,3]",
        "    0 in zones allowed     2 fragmented under restricted (n2), single-numa-node (n1)",
    ]


def with_reason(reason: str, cause: str) -> str:
    causes = (CauseCount("NodeResourceTopologyMatch", cause, ("n1",), reason),)
    shortfall = Shortfall(1, causes, (NearestNode("n1", "", None, 0, 0, cause.removeprefix("kubelet: ")),))
    state = cluster(node("n1", 32))
    pod = state.classes.of(guaranteed("p", 14))
    decision = Decision("telco/p", None, shortfall=shortfall)
    return refusal_text(refusal_of(state, pod, default_profile(), decision, ()))


def test_the_kubelets_own_reason_is_told() -> None:
    assert with_reason("TopologyAffinityError", "kubelet: TopologyAffinityError in container b").splitlines() == [
        "telco/p does not fit: no kubelet would admit it: TopologyAffinityError in container b.",
        "  asks for  cpu 14  memory 1Gi  (Guaranteed)",
        "    1 node",
        "    0 admitted     1 TopologyAffinityError in container b: n1",
        "Nearest:  n1 TopologyAffinityError in container b",
        "No change of a single amount or rule would let it in.",
    ]


def test_what_bayplan_cannot_tell_is_not_said_of_the_kubelet() -> None:
    text = with_reason("TooManyZoneCombinations", "too many NUMA zones to be sure")
    assert text.splitlines()[0] == ("telco/p might not fit: 1 node has too many NUMA zones to be sure.")
    assert "    0 certain     1 too many NUMA zones to be sure: n1" in text
    assert "kubelet" not in text


def test_long_names_and_long_causes_stay_within_a_hundred_columns() -> None:
    names = tuple(f"ip-10-{number}-0-{number * 7 % 200}.eu-central-1.compute.internal" for number in range(40))
    cause = (
        "kubelet: SMTAlignmentError (not enough free physical CPUs: available physical CPUs = 4, requested CPUs = 6)"
    )
    causes = (
        CauseCount("NodeResourceTopologyMatch", "no single NUMA zone holds the request", names[:20]),
        CauseCount("NodeResourceTopologyMatch", cause, names[20:], "SMTAlignmentError"),
    )
    state = cluster(*(node(name, 32) for name in names))
    decision = Decision("telco/p", None, shortfall=Shortfall(40, causes, ()))
    text = refusal_text(refusal_of(state, state.classes.of(guaranteed("p", 14)), default_profile(), decision, ()))
    stages = text.splitlines()[2:]
    assert max(len(line) for line in stages) <= 100
    assert "requested CPUs = 6)" in " ".join(line.strip() for line in stages)


def test_a_wide_table_shows_every_score_on_a_terminal_of_a_hundred_columns() -> None:
    domain = "eu-central-1.compute.internal"
    state = cluster(
        *(node(f"ip-10-0-{number}-17.{domain}", 32) for number in range(3)),
        *(zones(f"ip-10-0-{number}-17.{domain}", [16, 16], of=16) for number in range(3)),
    )
    with fitting(100):
        lines = outcome_text(outcome_of(state, guaranteed("p", 8)), wide=True).splitlines()[2:]
    assert max(len(line) for line in lines) <= 100
    assert lines[0].split()[-4:] == ["NodeResourcesFit", "x1", "LeastNUMANodes", "x10"]
    assert lines[1].startswith("  ip-10-0-0-17 ")
    assert lines[2].startswith("      NodeResourceTopologyMatch x2: ")


def test_a_node_that_reports_nothing_is_not_short_of_something() -> None:
    silent = Node(metadata=Metadata(name="n2"))
    lines = refusal_text(refused(outcome_of(cluster(node("n1", 4), silent), guaranteed("p", 8)))).splitlines()
    assert lines[2:5] == [
        "    2 nodes",
        "    1 with resources     1 no allocatable resources reported: n2",
        "    0 large enough       1 too small in cpu: n1",
    ]
    alone = outcome_text(outcome_of(cluster(silent), guaranteed("p", 8)))
    assert alone.startswith("telco/p does not fit: no node reports any resources.")
