"""`bayplan pod-grouper`, as far as it goes without a cluster: what is wrong with its arguments is one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bayplan.cli.options.grouping import grouping_settings
from bayplan.cli.program import run

EXAMPLES = Path(__file__).parents[4] / "examples" / "workloads"


@pytest.mark.parametrize("command", ["scheduler", "pod-grouper"])
@pytest.mark.parametrize(
    "written, message",
    [
        ("kinds: [{kind: Run, gang: sometimes}]", "kinds[0].gang"),
        ("kinds: [{group: example.com}]", "kinds[0]"),
        ("kinds:\n- kind: Run\n  replicas: 2\n  replicas: 3", "rules.yaml:4:3: kinds[0].replicas: appears twice"),
        ("kinds: [{kind: Run, replicas: 'spec..count'}]", '"spec..count" must be paths like spec.replicas'),
    ],
)
def test_a_wrong_rule_file_is_one_line_with_file_and_field(
    command: str, written: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(written)
    assert run(["bayplan", command, "--grouping-rules", str(file)]) == 2
    error = capsys.readouterr().err
    assert re.match(rf"error: (rule )?file {re.escape(str(file))}:\d+:\d+: ", error)
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["scheduler", "pod-grouper"])
def test_rules_do_not_go_with_kais_way(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    rules = str(EXAMPLES / "grouping-rules.yaml")
    assert run(["bayplan", command, "--grouping", "kai", "--grouping-rules", rules]) == 2
    assert "--grouping-rules does not go with --grouping kai" in capsys.readouterr().err


def test_ungrouped_pods_are_placed_only_where_the_scheduler_groups_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["bayplan", "scheduler", "--place-ungrouped", "--check-config"]) == 2
    assert "--place-ungrouped goes with --no-pod-grouper" in capsys.readouterr().err
    assert run(["bayplan", "scheduler", "--no-pod-grouper", "--place-ungrouped", "--check-config"]) == 0


def test_a_wrong_address_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bayplan", "pod-grouper", "--health-address", "nowhere"]) == 2
    assert "--health-address: 'nowhere' is not an address to listen on" in capsys.readouterr().err


def test_the_example_of_a_rule_file_adds_a_kind() -> None:
    settings = grouping_settings("bayplan", EXAMPLES / "grouping-rules.yaml")
    assert ("example.com", "TrainingRun") in settings.rules
    assert ("batch", "Job") in settings.rules
