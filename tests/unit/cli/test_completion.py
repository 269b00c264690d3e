"""Completion, for shells and for kubectl."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bayplan.cli.completion import for_kubectl
from bayplan.cli.program import COMMANDS
from tests.unit.cli.conftest import EXAMPLES, Bayplan

DUMP = ["--cluster", str(EXAMPLES / "cluster")]


def candidates(*words: str) -> list[str]:
    *lines, directive = for_kubectl(words)
    assert directive == ":4"
    return [line.partition("\t")[0] for line in lines]


def test_every_command_is_a_candidate_with_what_it_is_for() -> None:
    assert candidates("") == list(COMMANDS)
    assert for_kubectl(["slo"]) == ["slots\tHow many gangs of equal pods fit now, and where?", ":4"]
    assert for_kubectl([])[:1] == for_kubectl([""])[:1]


@pytest.mark.parametrize(
    "words, expected",
    [
        (["nodes", *DUMP, "telco-"], ["telco-1", "telco-2", "telco-3"]),
        (["numa", *DUMP, "gp"], ["gpu-1"]),
        (["why", *DUMP, "telco/upf-l"], ["telco/upf-large"]),
        (["why", *DUMP, "-n", "telco", "upf-l"], ["upf-large"]),
        (["why", *DUMP, "-n", "tel"], ["telco"]),
        (["why", "x", *DUMP, "--node", "amd"], ["amd-1", "amd-2"]),
        (["nodes", "-o", "w"], ["wide"]),
        (["nodes", "--wat"], ["--watch"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_names_flags_and_values(words: list[str], expected: list[str]) -> None:
    assert candidates(*words) == expected


GANGS = ["--cluster", str(EXAMPLES / "gangs" / "cluster.yaml")]
OWNED = """
apiVersion: v1
kind: Pod
metadata: {name: train-0-x, namespace: ml, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: u}]}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-5d8-x
  namespace: shop
  labels: {pod-template-hash: 5d8}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d8, uid: u}]
spec: {containers: [{name: c}]}
"""


@pytest.mark.parametrize(
    "words, expected",
    [
        (["topology", *GANGS, "n"], ["network"]),
        (["slots", *GANGS, "--topology", ""], ["network"]),
        (["topology", *GANGS, "network", "--level", "r"], ["rack"]),
        (["slots", *GANGS, "--level", "n"], ["node", "numa"]),
        (["topology", *GANGS, "--levels", "example.com/b"], ["example.com/block"]),
        (["topology", *GANGS, "--levels", "example.com/block,"], ["example.com/block,example.com/rack"]),
        (["nodes", *DUMP, "-r", "nvidia"], ["nvidia.com/gpu"]),
        (["simulate", "demo", "--compare", "blind,up"], ["blind,upstream", "blind,upstream-uncached"]),
    ],
)
def test_topologies_levels_resources_and_schedulers(words: list[str], expected: list[str]) -> None:
    assert candidates(*words) == expected


def test_workloads_are_named_as_why_takes_them(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(OWNED)
    assert candidates("why", "--cluster", str(file), "j") == ["job/train"]
    assert candidates("why", "--cluster", str(file), "-n", "shop", "") == ["deployment/web", "web-5d8-x"]


def test_files_are_left_to_the_shell() -> None:
    assert for_kubectl(["place", "-f", ""]) == [":0"]


def test_scenarios_are_those_of_bayplan_and_files() -> None:
    assert for_kubectl(["simulate", "de"]) == ["demo", ":0"]


@pytest.mark.parametrize("words", [["plce", ""], ["nodes", "--cluster", "/nowhere", ""], ["nodes", "--no-such", ""]])
def test_what_is_wrong_or_cannot_be_read_gives_no_candidates_and_no_error(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BAYPLAN_DEBUG", raising=False)
    assert candidates(*words) == []


def test_without_a_cluster_there_are_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    assert candidates("nodes", "") == []


@pytest.mark.parametrize("shell, beginning", [("bash", "_bayplan_completion()"), ("zsh", "#compdef bayplan")])
def test_the_script_of_a_shell(bayplan: Bayplan, shell: str, beginning: str) -> None:
    result = bayplan("completion", shell, cluster=None)
    assert (result.code, result.out.strip().startswith(beginning)) == (0, True)
    assert "_BAYPLAN_COMPLETE" in result.out


def test_bash_completes_by_its_script(bayplan: Bayplan, tmp_path: Path) -> None:
    script = bayplan("completion", "bash", cluster=None).out
    program = tmp_path / "bayplan"
    program.write_text(f"#!{sys.executable}\nfrom bayplan.cli.main import main\nmain()\n")
    program.chmod(0o755)
    asked = (
        f'{script}\nCOMP_WORDS=({program} slo); COMP_CWORD=1; _bayplan_completion {program}; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.strip() == "slots"
