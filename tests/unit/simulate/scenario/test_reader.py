"""A scenario file from its first to its last key, and what is said about files that cannot be used."""

from pathlib import Path

import pytest

from bayplan.simulate.scenario.model import Kind
from tests.unit.simulate.scenario.files import NODES, WORKLOADS, faults, scenario


def test_everything_that_can_be_left_out_has_a_default(tmp_path: Path) -> None:
    found = scenario(tmp_path, NODES + WORKLOADS)
    assert found.name == "x"
    assert (found.seed, found.lasts, found.report_delay, found.levels) == (0, 600.0, 0.0, ())
    assert [node.name for node in found.nodes] == ["n-0", "n-1", "n-2", "n-3"]
    (app,) = found.workloads
    assert (app.namespace, app.kind, len(app.members), app.members[0].arrives) == ("default", Kind.REPLICA_SET, 1, 0.0)
    assert found.remarks == ()


def test_all_keys(tmp_path: Path) -> None:
    text = "name: telco\nseed: 7\nlasts: 1h30m\nreportDelay: 250ms\nlevels: [zone]\n"
    nodes = NODES.replace("}]", ", labels: {zone: [a, b]}}]")
    found = scenario(tmp_path, text + nodes + WORKLOADS)
    assert (found.name, found.seed, found.lasts, found.report_delay) == ("telco", 7, 5400.0, 0.25)
    assert found.levels == ("zone",)


def test_a_scenario_reads_the_same_each_time_and_another_seed_changes_it(tmp_path: Path) -> None:
    random = (
        "workloads: [{name: a, kind: Job, replicas: 9, arrive: {rate: 1/s}, runs: [1s, 9s], "
        "pod: {resources: {cpu: 1}}}]\n"
    )
    one, again, other = (scenario(tmp_path, f"seed: {seed}\n{NODES}{random}") for seed in (1, 1, 2))
    assert one == again
    assert one.workloads != other.workloads


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "x.yaml:1: is empty"),
        ("just a text\n", 'x.yaml:1: "just a text" is not allowed: must be keys and values: name, seed, lasts'),
        ("- a\n", "x.yaml:1: a list is not allowed: must be keys and values"),
        (WORKLOADS, "x.yaml:1: nodes: is missing: give nodes, or cluster: FILE"),
        (NODES + "workload: []\n", "x.yaml:2: workload: is unknown: did you mean workloads?"),
        (NODES + "seed: -1\n", "x.yaml:2: seed: -1 is negative: must be 0 or more"),
        (NODES + "lasts: soon\n", 'x.yaml:2: lasts: "soon" is no duration: must be like 90s, 1h30m or 250ms'),
        (NODES + "lasts: 0s\n", 'x.yaml:2: lasts: "0s" is too short: must be 1s or more'),
        (NODES + "levels: zone\n", 'x.yaml:2: levels: "zone" is not allowed: must be a list'),
        ("nodes: {name: n}\n", "x.yaml:1: nodes: a mapping is not allowed: must be a list"),
        (
            NODES + "workloads:\n- &a {name: a, pod: {resources: {cpu: 1}}}\n- *a\n",
            'x.yaml:3: workloads[1].name: "a" is the name of another workload',
        ),
        (NODES + "cluster: none.json\n", "x.yaml:2: cluster: file none.json: does not exist"),
        (NODES + "cluster: [a, b]\n", "x.yaml:2: cluster: a list is not allowed: must be a single value"),
        (NODES + "trace: none.csv\n", "x.yaml:2: trace: none.csv does not exist"),
    ],
)
def test_faults_of_the_file(tmp_path: Path, text: str, message: str) -> None:
    (found,) = faults(tmp_path, text)
    assert found.startswith(message)


def test_all_faults_are_found_at_once(tmp_path: Path) -> None:
    text = """\
nodes:
- name: telco
  count: -3
  machine: pack:2 cores:16 mem:64Gi
workloads:
- name: upf
  replica: 4
  pod: {resources: {cpu: -8}}
"""
    assert faults(tmp_path, text) == [
        "x.yaml:3: nodes[0].count: -3 is negative: must be 1 or more",
        (
            'x.yaml:4: nodes[0].machine: "cores:16" is unknown: did you mean core? (a device '
            "says where it is: cores:16@numa)"
        ),
        "x.yaml:7: workloads[0].replica: is unknown: did you mean replicas?",
        'x.yaml:8: workloads[0].pod.resources.cpu: "-8" is negative: must be 0 or more',
    ]
