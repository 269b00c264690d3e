"""What people who live in kubectl expect of any command: its flags, its colours, its ends."""

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bayplan.cli.output import use_colour
from tests.kubeconfigs import kubeconfig
from tests.unit.cli.conftest import EXAMPLES, Bayplan

EVERY_FORMAT = {
    "place": ("text", "wide", "svg", "json", "yaml"),
    "numa": ("text", "svg", "json", "yaml"),
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


def test_a_closed_pipe_ends_quietly_as_kubectl_does() -> None:
    """And never with 0 or 1, which would be an answer that nobody could read."""
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
