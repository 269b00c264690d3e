"""Whatever is wrong with a file, the command that reads it answers or says so in the words of a user: never a
traceback, never the words of a library.

Every example is spoiled by a seeded generator: bytes cut, lines moved, indented or doubled, values exchanged for
others. One reading takes some milliseconds; `--corruptions` says how many are tried for each command.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bayplan.cli.program import run

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = str(EXAMPLES / "cluster")
GANGS = str(EXAMPLES / "gangs" / "cluster.yaml")
UPF = str(EXAMPLES / "pods" / "upf.yaml")

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: here
  cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}
users:
- name: me
  user: {token: secret}
contexts:
- name: here
  context: {cluster: here, user: me, namespace: default}
"""
AGENT = """
excludeList:
  masterNode: [memory, device/exampleA]
  "*": [hugepages-2Mi]
podExclude:
- {namespacePattern: kube-*, namePattern: "*"}
"""
TRACE = "time,name,cpu,memory,replicas\n0,web,2,4Gi,3\n5s,db,8,16Gi,1\n9s,etl,1,1Gi,2\n"
SCENARIO = "nodes: [{name: n, count: 2, machine: 'socket:2 core:8', memory: 64Gi}]\ntrace: spoiled.csv\nlasts: 20s\n"

# What no user should have to read.
OF_A_LIBRARY = re.compile(
    r"Traceback|internal error|byte string|unicode string|[Ee]xpected `|got `|msgspec|at `\$|NoneType|object at 0x"
    r"|[Ii]nvalid enum value|<class|Errno|\bdict\b|\bstr\b|\bint\b|codec can't|JSON is "
    r"malformed|Input data was truncated"
    r"|while (parsing|scanning)|Object (missing|contains)|unhashable|argument of type|not subscriptable"
)


def commands() -> dict[str, tuple[list[Path] | str, str, Callable[[Path], list[str]]]]:
    """By name: the files to spoil or the text of one, how the spoiled file is called, and the command that reads it."""

    def submitted(cluster: str) -> Callable[[Path], list[str]]:
        return lambda file: ["place", "-f", str(file), "--cluster", cluster]

    pods = sorted(EXAMPLES.glob("pods/*.yaml"))
    gangs = [EXAMPLES / "gangs" / name for name in ("pretrain.yaml", "segments.yaml", "sub-groups.yaml")]
    gangs += sorted(EXAMPLES.glob("dialects/*.yaml"))
    workloads = [file for file in sorted(EXAMPLES.glob("workloads/*.yaml")) if file.name != "grouping-rules.yaml"]
    clusters = [*sorted(EXAMPLES.glob("cluster/*.yaml")), Path(GANGS), EXAMPLES / "volcano" / "cluster.yaml"]
    scenarios = [EXAMPLES / "scenarios" / name for name in ("two-nodes.yaml", "gang-shapes.yaml", "late-reports.yaml")]
    rules = [EXAMPLES / "workloads" / "grouping-rules.yaml"]
    configurations = [EXAMPLES / "scheduler-config.yaml", EXAMPLES / "volcano" / "volcano-scheduler.yaml"]
    return {
        "pods": (pods, "pod.yaml", submitted(CLUSTER)),
        "gangs": (gangs, "gang.yaml", submitted(GANGS)),
        "workloads": (workloads, "workload.yaml", submitted(GANGS)),
        "cluster": (clusters, "cluster.yaml", lambda file: ["place", "-f", UPF, "--cluster", str(file)]),
        "config": (
            configurations,
            "config.yaml",
            lambda file: ["place", "-f", UPF, "--cluster", CLUSTER, "--config", str(file)],
        ),
        "scheduler config": (
            configurations,
            "c.yaml",
            lambda file: ["scheduler", "--check-config", "--config", str(file)],
        ),
        "rules": (
            rules,
            "rules.yaml",
            lambda file: ["pod-grouper", "--grouping-rules", str(file), "--kubeconfig", "/dev/null"],
        ),
        "kubeconfig": (KUBECONFIG, "kubeconfig", lambda file: ["why", "web", "--kubeconfig", str(file)]),
        "scenario": (scenarios, "scenario.yaml", lambda file: ["simulate", str(file), "--compare", "blind"]),
        "trace": (TRACE, "spoiled.csv", lambda file: ["simulate", str(scenario_of(file)), "--compare", "blind"]),
    }


def scenario_of(trace: Path) -> Path:
    """A scenario that reads a trace."""
    file = trace.with_name("scenario.yaml")
    file.write_text(SCENARIO)
    return file


def spoiled(text: bytes, draw: Random) -> bytes:
    """The same text with one to three faults."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = draw.choice(
            (_cut, _another_byte, _line_moved, _line_twice, _indented, _another_value, _another_value, _key_gone)
        )(text, draw)
    return text


def _cut(text: bytes, draw: Random) -> bytes:
    start = draw.randrange(len(text) or 1)
    return text[:start] if draw.random() < 0.3 else text[:start] + text[start + draw.randint(1, 20) :]


def _another_byte(text: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(text) or 1)
    return (
        text[:at]
        + draw.choice((b"\t", b"{", b"]", b":", b'"', b"\xff", b"\x00", b"&a", b"*a", b"!x ", b"-", b"#", b","))
        + text[at + 1 :]
    )


def _line_moved(text: bytes, draw: Random) -> bytes:
    lines = text.splitlines(keepends=True)
    if lines:
        lines.insert(draw.randrange(len(lines)), lines.pop(draw.randrange(len(lines))))
    return b"".join(lines)


def _line_twice(text: bytes, draw: Random) -> bytes:
    lines = text.splitlines(keepends=True)
    number = draw.randrange(len(lines) or 1)
    return b"".join(lines[: number + 1] + lines[number:])


def _indented(text: bytes, draw: Random) -> bytes:
    lines = text.splitlines(keepends=True)
    number = draw.randrange(len(lines) or 1)
    if lines:
        lines[number] = (
            draw.choice((b"  ", b"\t", b" ")) + lines[number] if draw.random() < 0.5 else lines[number].lstrip()
        )
    return b"".join(lines)


def _another_value(text: bytes, draw: Random) -> bytes:
    values = list(re.finditer(rb"(?<=[:-] )[^\s#{\[][^\n#,}\]]*", text))
    if not values:
        return text
    found = draw.choice(values)
    other = draw.choice(VALUES)
    return text[: found.start()] + other + text[found.end() :]


VALUES = (
    *(
        b"-1",
        b"0",
        b"true",
        b"null",
        b"[]",
        b"{}",
        b"[1, 2]",
        b"{a: b}",
        b'""',
        b"words of text",
        b"1.5",
        b"9e99",
        b"~",
    ),
    *(
        b"2026-01-01",
        b"12:30",
        b"0x1F",
        b".nan",
        b".inf",
        b"!!binary aGk=",
        b"99999999999999999999",
        b"9" * 4301,
        b"1e400",
        b"'5'",
        b"1Gi",
        b"\xc3\xa9",
    ),
)


def _key_gone(text: bytes, draw: Random) -> bytes:
    keys = list(re.finditer(rb"[A-Za-z]+:", text))
    if not keys:
        return text
    found = draw.choice(keys)
    other = draw.choice((b"", found[0][:-2] + b":", found[0].upper(), b"x:", found[0][:-1]))
    return text[: found.start()] + other + text[found.end() :]


@pytest.mark.parametrize("name", list(commands()))
def test_a_corrupt_file_is_answered_or_refused_in_the_words_of_a_user(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    files, called, command = commands()[name]
    originals = [files.encode()] if isinstance(files, str) else [file.read_bytes() for file in files]
    target = tmp_path / called
    for seed in range(request.config.getoption("--corruptions")):
        draw = Random(f"{name} {seed}")
        content = spoiled(draw.choice(originals), draw)
        target.write_bytes(content)
        code = run(["bayplan", *command(target)])
        said = capsys.readouterr()
        assert code in (0, 1, 2), f"seed {seed}: {content!r}"
        assert code != 2 or said.err, f"seed {seed}: no reason is given\n{content!r}"
        told = said.err.replace(str(tmp_path), "").replace(str(EXAMPLES), "")
        for line in told.splitlines():
            words = re.sub(r'"[^"]*"', '""', line)
            assert not OF_A_LIBRARY.search(words), f"seed {seed}: {line}\n{content.decode(errors='replace')}"
