"""Arrivals from CSV files and JSON lines."""

from pathlib import Path

import pytest

from bayplan.cluster.pods.request import effective_request
from bayplan.simulate.scenario.lines import Faults, ScenarioError
from bayplan.simulate.scenario.model import Kind, ScenarioPod, Workload
from bayplan.simulate.scenario.trace import read_trace
from tests.builders.objects import GI
from tests.unit.simulate.scenario.files import NODES, faults, scenario


def trace(folder: Path, text: str, name: str = "t.csv") -> list[Workload]:
    (folder / name).write_text(text)
    found = Faults()
    workloads = read_trace(folder / name, found)
    try:
        found.check()
    except ScenarioError as error:
        raise ScenarioError(str(error).replace(f"{folder}/", "")) from None
    return workloads


def test_lines_of_one_name_are_members_of_one_workload(tmp_path: Path) -> None:
    text = """\
time,name,namespace,runtime,cpu,memory,nvidia.com/gpu
90s,train,ml,10m,16,128Gi,2
0,web,,,500m,1Gi,
12.5,train,ml,5m,16,128Gi,2
"""
    train, web = trace(tmp_path, text)
    assert (train.name, train.namespace, train.kind) == ("train", "ml", Kind.JOB)
    assert train.members == (ScenarioPod(12.5, 300.0), ScenarioPod(90.0, 600.0))
    assert effective_request(train.template).total == {"cpu": 16000, "memory": 128 * GI, "nvidia.com/gpu": 2}
    assert (web.namespace, web.kind, web.members) == ("default", Kind.POD, (ScenarioPod(0.0),))
    assert effective_request(web.template).total == {"cpu": 500, "memory": GI}


def test_json_lines_say_the_same(tmp_path: Path) -> None:
    lines = (
        '{"time": 1.5, "name": "a", "kind": "Deployment", "cpu": 2, "example.com/gpu": null}\n\n'
        '{"time": "2m", "name": "a", "kind": "Deployment", "cpu": 2}\n'
    )
    (workload,) = trace(tmp_path, lines, "t.jsonl")
    assert workload.kind is Kind.REPLICA_SET
    assert workload.members == (ScenarioPod(1.5), ScenarioPod(120.0))


def test_nothing_and_zero_ask_for_nothing(tmp_path: Path) -> None:
    (workload,) = trace(tmp_path, "time, name, cpu, a.b/gpu, a.b/nic\n0, x, 1, 0,\n0, x, 1, , 0\n")
    assert effective_request(workload.template).total == {"cpu": 1000}


def test_the_trace_stands_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("time,name,cpu\n0s,a,1\n")
    found = scenario(tmp_path, NODES + "trace: t.csv\nworkloads: [{name: b, pod: {resources: {cpu: 1}}}]\n")
    assert [workload.name for workload in found.workloads] == ["b", "a"]
    assert faults(tmp_path, NODES + "trace: t.csv\nworkloads: [{name: a, pod: {resources: {cpu: 1}}}]\n") == [
        'x.yaml:2: trace: "a" is the name of another workload'
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ("time,name,cpus\n0,a,1\n", "t.csv:1: cpus: is no column: did you mean cpu?"),
        ("time,name,cpu,cpu\n0,a,1,1\n", "t.csv:1: cpu: appears twice"),
        ("time,name,cpu\n0,a\n", "t.csv:2: has 2 values: must be 3, as in the first line"),
        ("name,cpu\na,1\n", "t.csv:2: time: is missing"),
        ("time,cpu\n0,1\n", "t.csv:2: name: is missing"),
        ("time,name\n0,a\n", "t.csv:2: asks for nothing: must have a value for cpu, memory or another resource"),
        ("time,name,cpu\n\nnoon,a,1\n", 't.csv:3: time: "noon" is no duration'),
        ("time,name,cpu\n0,a,some\n", 't.csv:2: cpu: invalid quantity "some"'),
        ("time,name,cpu,runtime\n0,a,1,-5s\n", 't.csv:2: runtime: "-5s" is negative'),
        ("time,name,cpu,kind,runtime\n0,a,1,Pod,5s\n",
         "t.csv:2: kind: Pod cannot have a runtime: only pods of a Job end"),
        ("time,name,cpu,kind\n0,a,1,Cron\n", 't.csv:2: kind: "Cron" is not allowed'),
        ("time,name,cpu\n0,a,1\n0,a,2\n", "t.csv:3: cpu: differs from what the first line of this name says"),
        ("time,name,cpu,memory\n0,a,1,1Gi\n0,a,1,\n",
         "t.csv:3: memory differs from what the first line of this name says"),
        ('time,name,cpu\n0,"a\n,1\n', "t.csv:3: has 2 values"),
    ],
)  # fmt: skip
def test_lines_that_make_no_sense(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        trace(tmp_path, text)
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "t.csv is empty"),
        (b"\n \n", "t.csv is empty"),
        (b"time,name,cpu\n\n", "t.csv has no line below its header: must have one for each pod"),
        (b"time,name\xff", "t.csv:1:10: is not UTF-8 text"),
    ],
)
def test_a_trace_without_a_line_is_named_where_the_scenario_names_it(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    assert faults(tmp_path, f"{NODES}trace: t.csv\n") == [f"x.yaml:2: trace: {message}"]


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"time": 0', "t.jsonl:1: is no JSON object of texts and numbers"),
        ("[1]", "t.jsonl:1: is no JSON object of texts and numbers"),
        ('{"time": 0, "name": "a", "cpu": [1]}', "t.jsonl:1: is no JSON object of texts and numbers"),
        ('{"time": 0, "name": "a", "cpu": 1, "nam": 2}', "t.jsonl:1: nam: is unknown: did you mean name?"),
    ],
)
def test_json_lines_that_make_no_sense(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        trace(tmp_path, line, "t.jsonl")
    assert message in str(error.value)
