"""What people who live in kubectl expect of any command: its flags, its colours, its ends."""

import errno
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bayplan.cli.program import COMMANDS
from bayplan.cli.shared.output import use_colour
from tests.builders.bodies import list_body, pod_body
from tests.builders.kubeconfigs import kubeconfig
from tests.unit.cli.conftest import EXAMPLES, Bayplan

EVERY_FORMAT = {
    "place": ("text", "wide", "name", "svg", "json", "yaml", "jsonpath"),
    "numa": ("text", "svg", "json", "yaml", "jsonpath"),
}


@pytest.mark.parametrize("written", [["-o", "json"], ["-o=json"], ["-ojson"], ["--output=json"], ["--output", "json"]])
def test_the_output_format_is_taken_as_kubectl_takes_it(bayplan: Bayplan, written: list[str]) -> None:
    result = bayplan("numa", "telco-1", *written)
    assert (result.code, result.out[:1], result.err) == (0, "{", "")


def test_an_equals_sign_goes_with_every_short_option(bayplan: Bayplan, pods: Path) -> None:
    result = bayplan("place", f"-f={pods / 'upf.yaml'}", "-n=telco", "-o=yaml")
    assert result.code == 0
    assert "pod: telco/upf-0" in result.out


@pytest.mark.parametrize("command, formats", EVERY_FORMAT.items())
def test_a_wrong_format_lists_those_there_are(bayplan: Bayplan, command: str, formats: tuple[str, ...]) -> None:
    result = bayplan(command, "-o", "jsn", "-f", "x.yaml", "n")
    assert result.code == 2
    assert f"'jsn' is not one of {', '.join(map(repr, formats))}" in result.err


@pytest.mark.parametrize(
    "environment, on_terminal, coloured",
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
    ],
)
def test_colours_follow_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], on_terminal: bool, coloured: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    assert use_colour() is coloured


@pytest.mark.parametrize("arguments", [["why", "telco/upf-large"], ["numa", "telco-1"]])
def test_forced_colours_reach_a_pipe(bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in bayplan(*arguments).out


@pytest.mark.parametrize(
    "target, problem", [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")], ids=["full", "closed"]
)
def test_a_standard_output_that_cannot_be_written_is_one_line(target: str, problem: str) -> None:
    program = f"{shlex.quote(sys.executable)} -c 'from bayplan.cli.main import main; main()'"
    done = subprocess.run(
        f"{program} nodes --cluster {EXAMPLES}/cluster >{target}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"error: cannot write to standard output: {problem}\n")


def test_a_closed_pipe_ends_quietly_as_kubectl_does() -> None:
    """And never with 0 or 1, which would be an answer that no reader saw."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [
        sys.executable,
        "-c",
        "from bayplan.cli.main import main; main()",
        "why",
        "telco/upf-large",
        "--cluster",
        str(EXAMPLES / "cluster"),
    ]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("command", ["scheduler", "pod-grouper", "agent-gc"])
def test_a_taken_health_port_names_the_flag(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config")))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = bayplan(command, "--health-address", address, cluster=None)
    assert result.code == 2
    said = result.err.splitlines()[-1]
    assert said == (
        f"error: cannot listen on {address}: {os.strerror(errno.EADDRINUSE)}; choose another with --health-address"
    )


@pytest.mark.parametrize("command", ["scheduler", "pod-grouper", "agent", "agent-gc"])
def test_no_default_port_is_one_of_kubernetes_own_or_anothers_of_ours(bayplan: Bayplan, command: str) -> None:
    ports = {
        each: int(bayplan(each, "--help", cluster=None).out.partition("127.0.0.1:")[2][:5])
        for each in ("scheduler", "pod-grouper", "agent", "agent-gc")
    }
    assert ports[command] not in range(10248, 10261)
    assert list(ports.values()).count(ports[command]) == 1


@pytest.mark.parametrize(
    "words, said",
    [
        (["help"], "Usage|bayplan places Kubernetes pods"),
        (["help", "why"], "Usage: bayplan why"),
        (["version"], "bayplan 0."),
    ],
)
def test_help_and_version_may_be_typed_as_words(bayplan: Bayplan, words: list[str], said: str) -> None:
    result = bayplan(*words, cluster=None)
    assert result.code == 0
    assert result.out.startswith(tuple(said.split("|")))


@pytest.mark.parametrize("typed, meant", [("node", "nodes"), ("toplogy", "topology"), ("slot", "slots")])
def test_a_misspelt_command_is_guessed(bayplan: Bayplan, typed: str, meant: str) -> None:
    result = bayplan(typed, cluster=None)
    assert (result.code, result.err) == (
        2,
        f"error: no command '{typed}'; did you mean {meant}? See 'bayplan --help'.\n",
    )


@pytest.mark.parametrize("words", [["pod", "upf-large"], ["po", "upf-large"], ["pod/upf-large"], ["upf-large"]])
def test_a_pod_is_named_as_with_kubectl(bayplan: Bayplan, words: list[str]) -> None:
    assert bayplan("why", *words, "-n", "telco").answer.startswith("telco/upf-large is Pending")


def test_two_pods_at_once_are_refused_by_name(bayplan: Bayplan) -> None:
    result = bayplan("why", "telco/upf-large", "telco/amf-0")
    assert (result.code, result.err.partition(". See")[0]) == (
        2,
        "error: one pod, gang or workload at a time: telco/upf-large, telco/amf-0",
    )


@pytest.mark.parametrize("name", ["telco-1", "node/telco-1", "nodes/telco-1", "no/telco-1"])
def test_a_node_is_named_as_with_kubectl(bayplan: Bayplan, name: str) -> None:
    assert bayplan("nodes", name, "-o", "name").out == "node/telco-1\n"
    assert bayplan("numa", name).code == 0


@pytest.mark.parametrize("command", [["nodes"], ["topology", "--levels", "hostname"]])
@pytest.mark.parametrize("flags", [["-A"], ["-n", "telco"], ["--all-namespaces"]])
def test_namespaces_change_nothing_about_nodes(bayplan: Bayplan, command: list[str], flags: list[str]) -> None:
    assert bayplan(*command, *flags).out == bayplan(*command).out


@pytest.mark.parametrize(
    "requests, problem",
    [
        ("cpu=-1", 'error: --requests: cpu: "-1" is negative'),
        ("gpu=1.5", 'error: --requests: nvidia.com/gpu: "1500m" is not allowed: nvidia.com/gpu is counted in whole'),
        ("hugepages-1Gi=1Gi", "error: --requests: huge pages need cpu or memory beside them"),
        ("cpu=1,hugepages-1Gi=1500Mi", "error: --requests: hugepages-1Gi: "),
        ("cpu=1x", "error: --requests: cpu: "),
    ],
)
def test_wrong_amounts_are_told_in_the_words_of_the_option(bayplan: Bayplan, requests: str, problem: str) -> None:
    result = bayplan("slots", "--levels", "hostname", "--pods", "1", "--requests", requests)
    assert result.code == 2
    assert result.err.startswith(problem)
    assert "spec.containers" not in result.err


def test_one_of_a_kind_is_not_a_plural(bayplan: Bayplan, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}')
    assert "the dump has 1 node\n" in bayplan("numa", "xyzzy", cluster=file).err
    assert bayplan("nodes", cluster=file).answer == "1 node: 1 without a report"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_of_every_command_says_what_it_is_for(command: str) -> None:
    from bayplan.cli.program import bayplan

    context = click.Context(bayplan)
    found = bayplan.get_command(context, command)
    assert found is not None
    silent = [
        option.opts
        for option in found.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert silent == []


def test_a_common_domain_is_said_once_in_rankings_and_nearest_misses(bayplan: Bayplan, tmp_path: Path) -> None:
    names = [f"worker-{number}.eu-west-1.example.internal" for number in (1, 2)]
    allocatable = {"cpu": 4, "memory": "8Gi", "pods": 110}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}
        for name in names
    ]
    cluster = tmp_path / "cluster.json"
    running = [
        pod_body(f"db-{number}", "shop", {"cpu": 2}, nodeName=name, phase="Running")
        for number, name in enumerate(names)
    ]
    cluster.write_text(json.dumps(list_body([*nodes, *running])))
    for cpu, shown in ((1, "  worker-1  "), (4, "Nearest:  worker-1 has cpu 2 of 4")):
        amounts = {"cpu": cpu, "memory": "1Gi"}
        container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container]}}
        file = tmp_path / f"pod-{cpu}.json"
        file.write_text(json.dumps(pod))
        text = bayplan("place", "-f", file, cluster=cluster).out
        assert shown in text
        assert "(node names end in .eu-west-1.example.internal)" in text
