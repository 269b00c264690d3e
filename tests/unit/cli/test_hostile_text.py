"""Text of objects never drives a terminal, forges a line or hides what it says, whatever prints it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
import yaml

from bayplan.dialects.progress import MemberCounts, Phase, Progress
from bayplan.dialects.registry import dialect_written_as
from bayplan.kube.documents import read_documents
from bayplan.kube.resources import KNOWN_POD_GROUPS
from bayplan.kube.visible import visible, visible_json
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from tests.builders.bodies import list_body
from tests.builders.services import RecordingClient, in_virtual_time, pod_named
from tests.unit.cli.conftest import EXAMPLES, Bayplan

# Set the title, ring, begin a line, turn the direction of text, stand between letters, erase the screen, delete, end a
# line again.
HOSTILE = "\x1b]0;owned\x07\nFORGED\r\u202e\u200b\x9b2J\x7f\u2028\u2066\U000e0041"
FORMATS = {
    "place": ("text", "wide", "json", "yaml"),
    "why": ("text", "json", "yaml"),
    "overview": ("text", "wide", "name", "json", "yaml"),
    "nodes": ("text", "wide", "name", "json", "yaml"),
    "numa": ("text", "svg", "json", "yaml"),
    "topology": ("text", "wide", "svg", "json", "yaml"),
    "slots": ("text", "json", "yaml"),
}


def poisoned(content: Any, where: str = "") -> Any:
    """The same document with hostile text behind every name and in every free text. Equal names stay equal."""
    if isinstance(content, dict):
        return {_poisoned_key(key, where): poisoned(value, key) for key, value in content.items()}
    if isinstance(content, list):
        return [poisoned(each, where) for each in content]
    free = (
        "name",
        "namespace",
        "nodeName",
        "message",
        "reason",
        "image",
        "costs",
        "required",
        "preferred",
        "topology",
        "key",
        "nodeLabel",
    )
    if isinstance(content, str) and (
        where in free or where in ("example.com/block", "example.com/rack", "kubernetes.io/hostname")
    ):
        return content + HOSTILE if content not in ("cpu", "memory") else content
    return content


def _poisoned_key(key: str, where: str) -> str:
    return key + HOSTILE if where in ("labels", "annotations") and key.startswith("example.com/") else key


def documents(*files: Path) -> list[Any]:
    found = [msgspec.json.decode(document.json) for file in files for document in read_documents(file)]
    return [item for each in found for item in (each["items"] if each["kind"] == "List" else [each])]


def written(file: Path, items: list[Any]) -> Path:
    file.write_text(json.dumps(list_body(items)))
    return file


def assert_harmless(text: str) -> None:
    unseen = sorted({hex(ord(letter)) for letter in text if not letter.isprintable() and letter != "\n"})
    assert not unseen, f"{unseen} in {text[:400]!r}"
    assert not [line for line in text.split("\n") if line.startswith("FORGED")]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A cluster in which every name and text is hostile, with a pod and a gang that wait."""
    cluster = [EXAMPLES / "cluster" / name for name in ("nodes.yaml", "pods.yaml", "topology.yaml")]
    gangs = [EXAMPLES / "gangs" / name for name in ("cluster.yaml", "pretrain.yaml", "too-large.yaml")]
    items = poisoned(documents(*cluster, *gangs))
    for item in items:
        item["metadata"].setdefault("annotations", {})["bayplan.io/costs"] = HOSTILE
        item["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = HOSTILE
    return written(tmp_path / "dump.json", items)


def of(dump: Path, kind: str, **fields: str) -> str:
    items = json.loads(dump.read_text())["items"]
    return next(
        f"{each['metadata']['namespace']}/{each['metadata']['name']}" if kind == "Pod" else each["metadata"]["name"]
        for each in items
        if each["kind"] == kind
        and all(each["metadata"].get(key, "").startswith(value) for key, value in fields.items())
    )


@pytest.mark.parametrize(
    "command, output", [(command, each) for command, formats in FORMATS.items() for each in formats]
)
@pytest.mark.parametrize("on_terminal", [False, True], ids=["piped", "coloured"])
def test_no_command_prints_what_cannot_be_seen(
    dump: Path,
    tmp_path: Path,
    bayplan: Bayplan,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    output: str,
    on_terminal: bool,
) -> None:
    words = {
        "place": (
            "place",
            "--validate",
            "ignore",
            "-f",
            written(tmp_path / "pods.json", poisoned(documents(EXAMPLES / "pods" / "upf.yaml"))),
        ),
        "why": ("why", of(dump, "Pod")),
        "overview": ("why", "-A"),
        "nodes": ("nodes",),
        "numa": ("numa", of(dump, "NodeResourceTopology")),
        "topology": ("topology",),
        "slots": ("slots", "--pods", "4", "--requests", "nvidia.com/gpu=4"),
    }[command]
    if on_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    result = bayplan(*words, "-o", output, cluster=dump)
    own = ("\x1b[32m", "\x1b[31m", "\x1b[1m", "\x1b[0m", "\x1b[90m", "\x1b[36m", "\x1b[33m", "\x1b[1;34m")
    printed = result.out
    for colour in own if on_terminal else ():
        printed = printed.replace(colour, "")
    assert "owned" in result.out + result.err
    assert "internal error" not in result.err
    assert_harmless(printed)
    assert_harmless(result.err)
    if output == "svg" and result.code == 0:
        ET.fromstring(result.out)
    if output in ("json", "yaml") and result.code < 2:
        document = json.loads(result.out) if output == "json" else yaml.safe_load(result.out)
        assert any("owned" in each for each in strings(document))


def strings(content: Any) -> list[str]:
    if isinstance(content, dict):
        return [each for pair in content.items() for part in pair for each in strings(part)]
    if isinstance(content, list):
        return [each for part in content for each in strings(part)]
    return [content] if isinstance(content, str) else []


def test_errors_and_warnings_about_hostile_objects_are_one_line_each(tmp_path: Path, bayplan: Bayplan) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{HOSTILE}"},
        "status": {"allocatable": {"cpu": HOSTILE}},
    }
    dump = written(
        tmp_path / "dump.json", [node, {"apiVersion": "v1", "kind": f"Node{HOSTILE}", "metadata": {"name": 5}}]
    )
    result = bayplan("nodes", cluster=dump)
    assert_harmless(result.err)
    assert all(line.startswith(("warning: ", "No resources found.")) for line in result.err.splitlines())
    assert_harmless(bayplan("why", f"x{HOSTILE}", cluster=dump).err)
    assert_harmless(bayplan("nodes", "--kubeconfig", HOSTILE.replace("\0", ""), cluster=None).err)


def test_pages_and_pictures_of_a_simulation_are_harmless(tmp_path: Path, bayplan: Bayplan) -> None:
    items = poisoned(documents(EXAMPLES / "cluster" / "nodes.yaml", EXAMPLES / "cluster" / "topology.yaml"))
    written(tmp_path / "dump.json", items)
    scenario = {
        "cluster": "dump.json",
        "workloads": [{"name": "web", "replicas": 3, "pod": {"resources": {"cpu": 1, "memory": "1Gi"}}}],
    }
    (tmp_path / "scenario.yaml").write_text(json.dumps(scenario))
    page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    result = bayplan("simulate", tmp_path / "scenario.yaml", "--report", page, "--picture", picture, cluster=None)
    assert result.code < 2, result.err
    for text in (result.out, result.err, page.read_text(), picture.read_text()):
        assert_harmless(text)
    ET.fromstring(picture.read_text())


def test_logs_show_it_escaped_and_json_keeps_the_value() -> None:
    from bayplan.services.edges.logs import JsonFormatter, TextFormatter

    error = ValueError(HOSTILE)
    record = logging.LogRecord("bayplan.x", logging.INFO, "", 1, f"bad {HOSTILE}", (), (ValueError, error, None))
    record.pod = HOSTILE
    text, line = TextFormatter().format(record), JsonFormatter().format(record)
    for each in (text, line):
        assert_harmless(each)
    assert [each for each in text.split("\n")[1:] if not each.startswith("    ")] == []
    assert json.loads(line)["pod"] == HOSTILE


def test_events_conditions_and_the_status_of_gangs_show_it_escaped() -> None:
    client = RecordingClient()

    async def told() -> None:
        async with (
            EventRecorder(client.as_client(), instance="x") as events,
            ConditionWriter(client.as_client()) as said,
        ):
            events.failed_scheduling(pod_named("p"), f"no node has {HOSTILE}")
            said.unschedulable(pod_named("p"), f"no node has {HOSTILE}")

    in_virtual_time(told())
    progress = Progress(Phase.WAITING, f"no rack has {HOSTILE}", MemberCounts(2, 0, 0), invalid=False)
    written = [
        *client.bodies,
        *(dialect_written_as(each.type).status_of(progress) for each in KNOWN_POD_GROUPS.values()),
    ]
    found = [each for each in strings(written) if "owned" in each]
    assert len(found) >= 2 + len(KNOWN_POD_GROUPS)
    assert all(each.isprintable() for each in found)


def test_the_escapes() -> None:
    assert visible("plain é 漢 …") == "plain é 漢 …"
    assert visible(HOSTILE) == r"\x1b]0;owned\x07\nFORGED\r\u202e\u200b\x9b2J\x7f\u2028\u2066\U000e0041"
    assert visible(visible(HOSTILE)) == visible(HOSTILE)
    assert visible("\ud800") == r"\ud800"
    assert json.loads(visible_json(json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False))) == {HOSTILE: HOSTILE}
