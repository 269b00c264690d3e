"""`--config` takes a KubeSchedulerConfiguration wherever it stands: by itself, in a ConfigMap,
among other documents.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bayplan.cli.program import run
from tests.unit.cli.conftest import EXAMPLES, Bayplan

DEPLOYED = EXAMPLES.parent / "deploy" / "base" / "configuration.yaml"
WRITTEN = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "bayplan"}, {"schedulerName": "packed"}],
}
TEXT = yaml.safe_dump(WRITTEN)
NONE = "holds no KubeSchedulerConfiguration, by itself or in a ConfigMap; it holds"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bayplan-system"}}


def config_map(**data: str) -> dict[str, object]:
    metadata = {"name": "scheduler", "namespace": "bayplan-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_the_configuration_of_the_manifests_can_be_given_to_every_command(bayplan: Bayplan, pods: Path) -> None:
    result = bayplan("place", "-f", pods / "upf.yaml", "--config", DEPLOYED)
    assert (result.code, result.err) == (0, "")
    assert bayplan("why", "telco/upf-large", "--config", DEPLOYED).code in (0, 1)


def test_the_scheduler_takes_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bayplan", "scheduler", "--config", str(DEPLOYED), "--check-config"]) == 0
    assert "the configuration can be used" in capsys.readouterr().out


@pytest.mark.parametrize(
    "documents",
    [
        [config_map(**{"config.yaml": TEXT})],
        [config_map(**{"config.json": json.dumps(WRITTEN), "notes.txt": "kind: none of this", "other.yaml": "a: 1"})],
        [NAMESPACE, config_map(**{"config.yaml": TEXT})],
        [NAMESPACE, WRITTEN],
        [{"apiVersion": "v1", "kind": "List", "items": [NAMESPACE, config_map(a=TEXT)]}],
        [config_map(**{"nginx.conf": "x"}), config_map(a=f"# ours\\n---\\n{TEXT}")],
    ],
    ids=["ConfigMap", "several keys", "several documents", "beside other objects", "List", "two ConfigMaps"],
)
def test_one_configuration_is_found_wherever_it_stands(
    bayplan: Bayplan, pods: Path, tmp_path: Path, documents: list[object]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    result = bayplan("place", "-f", pods / "upf.yaml", "--config", file, "--scheduler-name", "packed")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(
    "documents, message",
    [
        (
            [config_map(a=TEXT, b=TEXT)],
            'holds 2 configurations: data["a"], data["b"]; expected one: write it into a file of its own',
        ),
        (
            [config_map(**{"nginx.conf": "x"}), NAMESPACE],
            f"{NONE} ConfigMap bayplan-system/scheduler (data: nginx.conf), Namespace bayplan-system",
        ),
    ],
    ids=["two", "none"],
)
def test_none_or_several_are_an_error_that_says_where_they_stand(
    bayplan: Bayplan, pods: Path, tmp_path: Path, documents: list[object], message: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    result = bayplan("place", "-f", pods / "upf.yaml", "--config", file)
    assert (result.code, result.err) == (2, f"error: file {file}: {message}\n")


def test_what_is_wrong_in_a_config_map_is_said_with_its_key(bayplan: Bayplan, pods: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config_map(**{"config.yaml": yaml.safe_dump({**WRITTEN, "profile": []})})))
    result = bayplan("place", "-f", pods / "upf.yaml", "--config", file)
    assert result.code == 2
    assert result.err.startswith(f'error: {file}: data["config.yaml"]: profile: ')
