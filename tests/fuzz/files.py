"""Spoiled files through each command, and spoiled configurations: an answer or an error with exit code 2, never a
traceback.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from random import Random
from typing import Any

from bayplan.cli.program import run
from tests.fuzz.corpus import by_kind, documents, objects
from tests.fuzz.failures import Disagreement, Findings
from tests.fuzz.mutating import mutated

Json = Any
FORMATS = ("text", "json", "yaml")
# Fields of a scenario that say how much there is: what takes a minute is no finding.
LARGE = ("replicas", "count", "nodes", "racks", "blocks", "completions", "parallelism", "size", "minMember")
MOST = 20


def one_command(random: Random, findings: Findings, folder: Path) -> None:
    """One command line on spoiled files."""
    cluster, submitted = folder / "cluster.json", folder / "submitted.json"
    cluster.write_text(_listed([_spoiled(random, each) for each in random.choices(objects(), k=random.randint(1, 20))]))
    wanted = [each for each in objects() if each["kind"] not in ("Node", "NodeResourceTopology")]
    submitted.write_text(_listed([_spoiled(random, each) for each in random.choices(wanted, k=random.randint(1, 3))]))
    findings.objects += 20
    pod = random.choice(by_kind()["v1", "Pod"])["metadata"]
    node = random.choice(by_kind()["v1", "Node"])["metadata"]["name"]
    words: tuple[str, ...] = random.choice(
        (
            ("place", "-f", str(submitted), "--validate", random.choice(("strict", "warn", "ignore"))),
            ("why", f"{pod.get('namespace', 'default')}/{pod['name']}"),
            ("why", "-A"),
            ("nodes",),
            ("numa", node),
            ("topology",),
            ("slots", "-f", str(submitted)),
        )
    )
    _run(findings, *words, "--cluster", str(cluster), "-o", random.choice(FORMATS))


def one_configuration(random: Random, findings: Findings, folder: Path) -> None:
    """A configuration of kube-scheduler's or Volcano's form, or a rule file."""
    kind = random.choice(("scheduler-config.yaml", "volcano/volcano-scheduler.yaml", "workloads/grouping-rules.yaml"))
    file = folder / "config.json"
    file.write_text(_text(_spoiled(random, random.choice(documents(kind)))))
    findings.objects += 1
    cluster = folder / "cluster.json"
    cluster.write_text(_listed([*by_kind()["v1", "Node"][:2], *by_kind()["v1", "Pod"][:2]]))
    flag = "--grouping-rules" if "rules" in kind else "--config"
    _run(findings, "why", "-A", "--cluster", str(cluster), flag, str(file))


def one_scenario(random: Random, findings: Findings, folder: Path) -> None:
    """A small scenario."""
    name = random.choice(("two-nodes", "demo", "late-reports", "patience", "gang-shapes", "runaway"))
    scenario = _small(mutated(random, _small(random.choice(documents(f"scenarios/{name}.yaml"))), random.randint(1, 3)))
    file = folder / "scenario.json"
    file.write_text(_text(scenario))
    findings.objects += 1
    _run(findings, "simulate", str(file), "--compare", random.choice(("bayplan", "upstream", "blind")))


def _small(content: Json) -> Json:
    """The same with small numbers where they say how much there is."""
    if isinstance(content, dict):
        return {
            key: min(value, MOST) if key in LARGE and isinstance(value, int) else _small(value)
            for key, value in content.items()
        }
    return [_small(each) for each in content] if isinstance(content, list) else content


def _spoiled(random: Random, document: Json) -> Json:
    return mutated(random, document, random.choice((0, 1, 1, 2, 4)), objects())


def _listed(items: list[Json]) -> str:
    return _text({"apiVersion": "v1", "kind": "List", "items": items})


def _text(document: Json) -> str:
    return json.dumps(document)


def _run(findings: Findings, *words: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with findings.step(words[0]):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["bayplan", *words])
        told = err.getvalue()
        if "internal error" in told:
            raise Disagreement(f"{told[told.index('internal error') :][:200]} ({' '.join(words)})")
        if code not in (0, 1, 2) or (code == 2 and not told):
            raise Disagreement(f"exit code {code} ({' '.join(words)})")
        unseen = {letter for letter in out.getvalue() + told if not letter.isprintable() and letter != "\n"}
        if unseen:
            raise Disagreement(f"prints {sorted(unseen)!r} ({words[0]})")
