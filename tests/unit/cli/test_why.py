"""`bayplan why` for pods that wait, run, failed, or do not exist."""

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from bayplan.cli.shared.gang_objects import find_gang
from bayplan.cli.shared.pod_views import find_pod
from bayplan.cli.shared.reading import profiles_in
from bayplan.cli.shared.session import ClusterSession
from bayplan.kube.object_set import ObjectSet
from tests.builders.bodies import list_body, pod_body
from tests.unit.cli.conftest import EXAMPLES, Bayplan

PENDING = "telco/upf-large is Pending: no schedulable node has the request inside one NUMA zone."


@pytest.mark.parametrize(
    "arguments",
    [
        ["telco/upf-large"],
        ["upf-large", "-n", "telco"],
        ["pod/upf-large", "-n", "telco"],
        ["pod/telco/upf-large"],
        ["upf-large"],
    ],
)
def test_a_pod_is_found_by_every_name_people_use(bayplan: Bayplan, arguments: list[str]) -> None:
    result = bayplan("why", *arguments)
    assert (result.code, result.answer) == (1, PENDING)


@pytest.mark.parametrize(
    "pod, answer",
    [
        ("telco/amf-0", "telco/amf-0 is on telco-1, NUMA zone 0."),
        ("hpc/solver-0", "hpc/solver-0 is on amd-1, NUMA zones 4-5."),
        ("telco/legacy-gw-0", "telco/legacy-gw-0 is on telco-2, NUMA zone 1."),
        (
            "monitoring/node-exporter-x7k2p",
            "monitoring/node-exporter-x7k2p is on telco-1, not pinned to a NUMA zone.",
        ),
        (
            "telco/upf-7d9c",
            "telco/upf-7d9c failed on telco-2 (TopologyAffinityError): it fits now on telco-1, NUMA zone 0.",
        ),
    ],
)
def test_pods_that_run_or_would_fit_exit_with_0(bayplan: Bayplan, pod: str, answer: str) -> None:
    result = bayplan("why", pod)
    assert (result.code, result.answer) == (0, answer)


def test_a_misspelt_pod_is_looked_for_in_every_namespace(bayplan: Bayplan, tmp_path: Path) -> None:
    spec = "{containers: [{name: main, image: i}]}"
    others = (f"metadata: {{name: upf-large, namespace: {each}}}\nspec: {spec}\n" for each in ("lab", "edge"))
    cluster = with_pod(tmp_path, "---\napiVersion: v1\nkind: Pod\n".join(others))
    meant = "did you mean lab/upf-large or edge/upf-large?"
    assert meant in bayplan("why", "telco/upf-lrge", cluster=cluster).err


def with_pod(folder: Path, text: str) -> Path:
    """The example cluster and one more pod."""
    for name in ("nodes.yaml", "topology.yaml"):
        (folder / name).write_text((EXAMPLES / "cluster" / name).read_text())
    (folder / "pod.yaml").write_text(f"apiVersion: v1\nkind: Pod\n{text}")
    return folder


@pytest.mark.parametrize(
    "now, waited",
    [
        ("2026-01-31T12:00:45Z", "for 45s"),
        ("2026-01-31T12:04:10Z", "for 4m"),
        ("2026-01-31T15:30:00Z", "for 3h"),
        ("2026-02-03T12:00:00Z", "for 3d"),
    ],
)
def test_the_waiting_time_is_counted_from_creation(bayplan: Bayplan, tmp_path: Path, now: str, waited: str) -> None:
    metadata = 'metadata: {name: p, creationTimestamp: "2026-01-31T12:00:00Z"}\n'
    folder = with_pod(tmp_path, metadata + 'spec: {containers: [{name: c, resources: {requests: {cpu: "999"}}}]}\n')
    result = bayplan("why", "p", "--now", now, cluster=folder)
    assert result.answer == f"default/p is Pending {waited}: no node has cpu 999: the largest has 126."


def test_in_a_dump_the_waiting_time_ends_with_the_newest_time_there(bayplan: Bayplan, tmp_path: Path) -> None:
    conditions = '[{type: PodScheduled, status: "False", lastTransitionTime: "2026-01-31T12:04:00Z"}]'
    folder = with_pod(
        tmp_path,
        'metadata: {name: p, creationTimestamp: "2026-01-31T12:00:00Z"}\n'
        'spec: {containers: [{name: c, resources: {requests: {cpu: "999"}}}]}\n'
        f"status: {{phase: Pending, conditions: {conditions}}}\n",
    )
    assert bayplan("why", "p", cluster=folder).answer.startswith("default/p is Pending for 4m:")


def test_a_pending_pod_that_fits_is_told_where(bayplan: Bayplan, tmp_path: Path) -> None:
    folder = with_pod(tmp_path, "metadata: {name: p}\nspec: {containers: [{name: c}]}\n")
    result = bayplan("why", "p", cluster=folder)
    assert result.code == 0
    assert result.answer.startswith("default/p is Pending: it fits now on ")


def test_a_finished_pod_needs_no_node(bayplan: Bayplan, tmp_path: Path) -> None:
    folder = with_pod(
        tmp_path, "metadata: {name: p}\nspec: {nodeName: amd-1, containers: [{name: c}]}\nstatus: {phase: Succeeded}\n"
    )
    assert bayplan("why", "p", cluster=folder).answer == "default/p is done; it ran on amd-1."


def test_json_holds_everything_the_text_says(bayplan: Bayplan) -> None:
    document = json.loads(bayplan("why", "telco/upf-large", "-o", "json").out)
    assert (document["kind"], document["phase"], document["node"]) == ("Explanation", "Pending", None)
    assert document["asksFor"]["total"]["memory"] == "32Gi"
    refusal = document["now"]["refusal"]
    assert [(stage["left"], stage["lost"]) for stage in refusal["stages"]] == [(4, 2), (2, 2), (0, 2)]
    assert refusal["nearest"][0] == {
        "node": "telco-1",
        "zone": 0,
        "resource": "cpu",
        "have": "22",
        "want": "24",
        "reason": None,
        "heldBy": {"pod": "telco/amf-0", "amount": "8"},
    }
    assert refusal["wouldScheduleIf"][0] == {
        "change": "cpu 22 instead of 24 (2 nodes)",
        "nodes": 2,
        "atLeast": False,
        "type": "SmallerRequest",
        "container": "upf",
        "resource": "cpu",
        "amount": "22",
        "insteadOf": "24",
    }
    assert refusal["event"].startswith("0/6 nodes are available: ")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["telco/upf-lrge"], "error: there is no pod 'telco/upf-lrge' in the dump; did you mean telco/upf-large"),
        (["upf-large", "-n", "default"], "did you mean telco/upf-large"),
        (
            ["deployement/web"],
            "'deployement' is neither a namespace with pods nor a kind; did you mean deployment/web?",
        ),
        (["zzz"], "error: there is no pod 'zzz' in the dump; the dump has 13 pods"),
        (["amf-0", "--now", "yesterday"], "error: --now: 'yesterday' is not a time"),
    ],
)
def test_an_unknown_pod_is_an_error_with_close_matches(bayplan: Bayplan, arguments: list[str], message: str) -> None:
    result = bayplan("why", *arguments)
    assert result.code == 2
    assert message in result.err


class TestOneNode:
    """`--node`: why not there?"""

    @pytest.mark.parametrize(
        "pod, node, code, answer",
        [
            (
                "telco/upf-large",
                "telco-2",
                1,
                (
                    "telco/upf-large does not fit on telco-2: no single NUMA zone holds the request\n"
                    "  refused by NodeResourceTopologyMatch\n"
                    "  zone 1 has cpu 22 of 24  (telco/legacy-gw-0 holds 8 there)\n"
                ),
            ),
            (
                "telco/upf-large",
                "node/telco-3",
                1,
                "telco/upf-large does not fit on telco-3: node(s) were unschedulable\n  refused by NodeUnschedulable\n",
            ),
            (
                "telco/upf-large",
                "amd-1",
                1,
                (
                    "telco/upf-large does not fit on amd-1: Insufficient hugepages-1Gi\n"
                    "  refused by NodeResourcesFit\n"
                    "  has hugepages-1Gi 0 of 16Gi in total\n"
                ),
            ),
            ("telco/upf-7d9c", "telco-1", 0, "telco/upf-7d9c fits on telco-1, NUMA zone 0\n"),
        ],
    )
    def test_says_what_is_missing_there(self, bayplan: Bayplan, pod: str, node: str, code: int, answer: str) -> None:
        result = bayplan("why", pod, "--node", node)
        assert (result.code, result.out) == (code, answer)

    def test_as_json(self, bayplan: Bayplan) -> None:
        document = json.loads(bayplan("why", "telco/upf-large", "--node", "telco-2", "-o", "json").out)
        assert (document["kind"], document["fits"]) == ("NodeVerdict", False)
        missing = {"node": "telco-2", "zone": 1, "resource": "cpu", "have": "22", "want": "24"}
        assert missing.items() <= document["missing"].items()

    def test_an_unknown_node_is_an_error_with_close_names(self, bayplan: Bayplan) -> None:
        result = bayplan("why", "telco/upf-large", "--node", "telco-9")
        assert result.code == 2
        assert "there is no node 'telco-9' in the dump; did you mean telco-" in result.err


@pytest.mark.parametrize("find, kind", [(find_pod, "pod"), (find_gang, "PodGroup")])
def test_what_a_cluster_that_runs_does_not_have_is_not_in_the_cluster(find: Callable[..., object], kind: str) -> None:
    session = ClusterSession(ObjectSet(), None, profiles_in(None), "cluster")
    with pytest.raises(click.ClickException, match=f"there is no {kind} '.*nope' in the cluster; the cluster has 0"):
        find(session, f"{kind.lower()}/ml/nope", None)


@pytest.mark.parametrize(
    "scheduler, message, told",
    [
        ("", "", ""),
        ("default-scheduler", "", "  belongs to  default-scheduler\n"),
        ("", "0/2 nodes are available", "  belongs to  default-scheduler, which says: 0/2 nodes are available\n"),
        ("volcano", "0/2 nodes are available", "  belongs to  volcano, which says: 0/2 nodes are available\n"),
    ],
)
def test_a_pod_that_fits_and_waits_says_whose_it_is_and_what_that_scheduler_says(
    bayplan: Bayplan, tmp_path: Path, scheduler: str, message: str, told: str
) -> None:
    body = pod_body("waits", "telco", {"cpu": 1}, scheduler=scheduler)
    body["status"] = {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": message}] if message else []
    }
    file = tmp_path / "waits.json"
    file.write_text(json.dumps(list_body([body])))
    result = bayplan("why", "telco/waits", "--cluster", file)
    assert (result.code, "belongs to" in result.out, told in result.out) == (0, bool(told), True)
    document = json.loads(bayplan("why", "telco/waits", "-o", "json", "--cluster", file).out)
    assert document["schedulerSays"] == (message or None)
