"""`bayplan simulate`: the answer first, files written whole or not at all, Ctrl-C keeps what there is."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import yaml

from bayplan.cli.simulate import progress_line
from bayplan.simulate.run import Run
from bayplan.simulate.scenario.model import Scenario
from tests.unit.cli.conftest import EXAMPLES, Bayplan
from tests.unit.simulate.small_runs import a_run, blind_run

PROGRAM = (sys.executable, "-c", "from bayplan.cli.main import main; main()")
# The nodes of small_runs.py.
SCENARIO = """
name: two-zones
lasts: 1m
nodes:
- &worker
  name: telco-1
  machine: pack:2 core:16 mem:64Gi
  kubelet: {topologyManagerPolicy: single-numa-node, cpuManagerPolicy: static, reservedSystemCPUs: "0"}
- {<<: *worker, name: telco-2}
- {<<: *worker, name: amd-1}
workloads:
- name: half
  replicas: 6
  pod: {resources: {cpu: 10, memory: 8Gi}}
"""
# Seven times ten CPUs are more than six zones of sixteen can hold, although three nodes have them in sum.
TOO_MANY = SCENARIO.replace("replicas: 6", "replicas: 7")


class Scripted:
    """Stands in for a simulation: three events, then the run that was made by hand."""

    interrupt_at: tuple[str, int] | None = None

    def __init__(self, scenario: Scenario, scheduler: str) -> None:
        self.scheduler = scheduler
        self.events = 0

    @property
    def now(self) -> float:
        return self.events * 20.0

    @property
    def progress(self) -> float:
        return self.events / 3

    def step(self) -> bool:
        if (self.scheduler, self.events) == self.interrupt_at:
            signal.raise_signal(signal.SIGINT)
        self.events += 1
        return self.events <= 3

    def result(self, *, interrupted: bool = False) -> Run:
        changes: dict[str, Any] = {"interrupted": True, "ended_at": self.now} if interrupted else {}
        return a_run(self.scheduler, **changes) if self.scheduler != "blind" else blind_run(**changes)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    monkeypatch.setattr("bayplan.simulate.simulation.Simulation", Scripted)
    monkeypatch.setattr(Scripted, "interrupt_at", None)
    return Scripted


def test_a_scenario_happens_under_all_three_schedulers(bayplan: Bayplan, scenario: Path) -> None:
    result = bayplan("simulate", scenario, cluster=None)
    assert result.answer.startswith("bayplan: all 6 pods ran, none refused by a kubelet; blind: ")
    assert result.out.splitlines()[4].split() == ["blind", "upstream", "bayplan"]
    assert (result.code, result.err) == (0, "")


def test_the_example_in_the_documentation_is_true(bayplan: Bayplan, scenario: Path) -> None:
    section = (EXAMPLES.parent / "docs" / "simulate.md").read_text()
    scenario.write_text(section.partition("```yaml\n")[2].partition("```")[0])
    command, _, expected = section.partition("\n$ bayplan ")[2].partition("```")[0].partition("\n")
    arguments = command.replace("scenario.yaml", str(scenario)).split()
    assert bayplan(*arguments, cluster=None).out == expected


def test_a_pod_with_a_claim_waits_because_simulations_have_none(bayplan: Bayplan, tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9"}},
    }
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"containers": [{"name": "c"}], "volumes": [claim]},
    }
    bound = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "status": {"phase": "Bound"},
    }
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node, pod, bound]}))
    file = tmp_path / "scenario.yaml"
    file.write_text("cluster: cluster.json\nlasts: 1m\n")
    result = bayplan("simulate", file, "--compare", "bayplan", cluster=None)
    assert "1 of db waits: asks for spec.volumes[].persistentVolumeClaim, which a simulation" in result.out


def test_pods_that_wait_are_named_with_the_reason_and_the_answer_is_no(bayplan: Bayplan, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(TOO_MANY)
    result = bayplan("simulate", path, "--compare", "bayplan", cluster=None)
    assert result.answer == "bayplan: 6 of 7 pods ran, none refused by a kubelet, 1 waiting"
    assert "1 of half waits: " in result.out
    assert result.code == 1


def test_the_same_scenario_gives_the_same_bytes_in_any_process(scenario: Path, tmp_path: Path) -> None:
    outputs = []
    for hash_seed in ("1", "2"):
        page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
        command: list[str | Path] = [
            *PROGRAM,
            "simulate",
            scenario,
            "--report",
            page,
            "--picture",
            picture,
            "-o",
            "json",
        ]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "SOURCE_DATE_EPOCH": "1700000000"}
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        outputs.append((done.stdout, page.read_bytes(), picture.read_bytes()))
    assert outputs[0] == outputs[1]
    assert b"on 2023-11-14 22:13 UTC:" in outputs[0][1]


def test_a_date_that_is_none_is_refused(
    bayplan: Bayplan, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    result = bayplan("simulate", scenario, "--report", tmp_path / "a.html", cluster=None)
    assert result.code == 2
    assert result.err == 'error: SOURCE_DATE_EPOCH: "yesterday" is not a moment: must be whole seconds since 1970\n'


def test_the_page_names_the_command_that_wrote_it(bayplan: Bayplan, scenario: Path, tmp_path: Path) -> None:
    page = tmp_path / "out file.html"
    bayplan("simulate", scenario, "--report", page, cluster=None)
    assert f"<code>bayplan simulate {scenario} --report &#x27;{page}&#x27;</code>" in page.read_text()


@pytest.mark.parametrize("output, load", [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents(bayplan: Bayplan, scripted: type[Scripted], scenario: Path, output: str, load: Any) -> None:
    document = load(bayplan("simulate", scenario, "-o", output, cluster=None).out)
    assert document["kind"] == "SimulationComparison"
    assert [run["scheduler"] for run in document["runs"]] == ["blind", "upstream", "bayplan"]


@pytest.mark.parametrize(
    "compare, code",
    [("blind,upstream,bayplan", 0), ("blind,bayplan", 0), ("bayplan", 0), ("bayplan, blind", 1), ("blind", 1)],
)
def test_the_exit_code_is_about_the_last_scheduler(
    bayplan: Bayplan, scripted: type[Scripted], scenario: Path, compare: str, code: int
) -> None:
    assert bayplan("simulate", scenario, "--compare", compare, cluster=None).code == code


def test_report_delay_takes_the_place_of_the_scenarios(
    bayplan: Bayplan, scripted: type[Scripted], scenario: Path
) -> None:
    assert "reports arrive at once" in bayplan("simulate", scenario, cluster=None).out
    assert "reports arrive after 1.5s" in bayplan("simulate", scenario, "--report-delay", "1500ms", cluster=None).out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--compare", "blind,kube"],
            (
                "--compare: 'kube' is not a scheduler; known: blind, upstream, bayplan, upstream-uncached, "
                "volcano, unordered, numa-aware"
            ),
        ),
        (
            ["--compare", ""],
            (
                "--compare: '' is not a scheduler; known: blind, upstream, bayplan, upstream-uncached, volcano, "
                "unordered, numa-aware"
            ),
        ),
        (["--compare", "blind,blind"], "--compare: 'blind' appears twice"),
        (["--report-delay", "soon"], '--report-delay: "soon" is no duration: must be like 90s, 1h30m or 250ms'),
        (["--seed", str(2**63)], f"--seed: {2**63} is not allowed: must be 0 to {2**63 - 1}"),
        (["--report", "a.html", "--picture", "./a.html"], "--report and --picture both name a.html: must be two files"),
        (["--theme", "dark"], "--theme is for pictures: needs --picture"),
        (["--report-delay", "-1s"], '--report-delay: "-1s" is negative: must be 0s or more'),
    ],
)
def test_wrong_options_are_one_line(bayplan: Bayplan, scenario: Path, arguments: list[str], message: str) -> None:
    result = bayplan("simulate", scenario, *arguments, cluster=None)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: {message}. See 'bayplan simulate --help'.\n"


def test_faults_of_a_scenario_name_file_line_and_key(bayplan: Bayplan, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("replicas: 6", "replicas: none"))
    result = bayplan("simulate", scenario, cluster=None)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {scenario}:13:3: workloads[0].replicas: ")


def test_a_scenario_that_is_not_there(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("simulate", tmp_path / "none.yaml", cluster=None)
    assert result.code == 2
    assert result.err == f"error: file {tmp_path / 'none.yaml'}: does not exist\n"


# -- files --------------------------------------------------------------------------------------------------------


def test_the_report_and_the_picture_are_written(
    bayplan: Bayplan, scripted: type[Scripted], scenario: Path, tmp_path: Path
) -> None:
    page, picture = tmp_path / "out.html", tmp_path / "out.svg"
    result = bayplan("simulate", scenario, "--report", page, "--picture", picture, cluster=None)
    assert result.code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert picture.read_text().startswith("<svg ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "out.svg", "scenario.yaml"]


@pytest.mark.parametrize("target, problem", [("none/out.html", "No such file or directory"), (".", "is a folder")])
def test_a_file_that_cannot_be_written_is_known_before_anything_is_simulated(
    bayplan: Bayplan, scenario: Path, tmp_path: Path, target: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayplan.simulate.simulation.Simulation", None)
    result = bayplan("simulate", scenario, "--report", tmp_path / target, cluster=None)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: --report: {tmp_path / target} cannot be written: {problem}\n"


def test_an_old_report_stays_if_the_scenario_is_wrong(bayplan: Bayplan, scenario: Path, tmp_path: Path) -> None:
    scenario.write_text("nodes: 3\n")
    page = tmp_path / "out.html"
    page.write_text("old")
    assert bayplan("simulate", scenario, "--report", page, cluster=None).code == 2
    assert page.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "scenario.yaml"]


def test_a_link_is_kept_and_so_is_the_mode_of_the_file_behind_it(
    bayplan: Bayplan, scripted: type[Scripted], scenario: Path, tmp_path: Path
) -> None:
    target, link = tmp_path / "real.html", tmp_path / "link.html"
    target.write_text("old")
    target.chmod(0o604)
    link.symlink_to(target)
    bayplan("simulate", scenario, "--report", link, cluster=None)
    assert link.is_symlink()
    assert target.read_text().startswith("<!doctype html>")
    assert target.stat().st_mode & 0o777 == 0o604


def test_what_is_no_file_is_written_to_as_it_is(bayplan: Bayplan, scripted: type[Scripted], scenario: Path) -> None:
    assert bayplan("simulate", scenario, "--report", os.devnull, cluster=None).code == 0
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("option", ["--report", "--picture"])
def test_a_dash_is_no_file(
    bayplan: Bayplan, scenario: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = bayplan("simulate", scenario, option, "-", cluster=None)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: {option}: - cannot be written: name a file, standard output has the answer\n"
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


def test_one_device_may_take_both_files(bayplan: Bayplan, scripted: type[Scripted], scenario: Path) -> None:
    assert bayplan("simulate", scenario, "--report", os.devnull, "--picture", os.devnull, cluster=None).code == 0


def test_a_program_that_is_ended_leaves_no_half_written_file(scenario: Path, tmp_path: Path) -> None:
    scenario.write_text(SCENARIO.replace("replicas: 6", "replicas: 300000"))  # enough to be busy for a while
    command: list[str | Path] = [
        *PROGRAM,
        "simulate",
        scenario,
        "--compare",
        "blind",
        "--report",
        tmp_path / "out.html",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        while not list(tmp_path.glob(".out.html.*.part")) and program.poll() is None:
            sleep(0.01)
        program.terminate()
        assert program.communicate() == (b"", b"")
    assert program.returncode == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


# -- Ctrl-C and progress ------------------------------------------------------------------------------------------


def test_ctrl_c_stops_the_run_and_shows_and_writes_what_there_is(
    bayplan: Bayplan, scripted: type[Scripted], scenario: Path, tmp_path: Path
) -> None:
    scripted.interrupt_at = ("upstream", 2)
    page = tmp_path / "out.html"
    result = bayplan("simulate", scenario, "--report", page, cluster=None)
    assert result.code == 130
    assert result.answer.startswith("interrupted at 1m: upstream: ")
    assert "  interrupted; not run: bayplan" in result.out.splitlines()
    assert "interrupted at 1m: upstream: " in page.read_text()


def test_ctrl_c_at_the_last_event_of_all_loses_nothing(
    bayplan: Bayplan, scripted: type[Scripted], scenario: Path
) -> None:
    scripted.interrupt_at = ("bayplan", 3)
    result = bayplan("simulate", scenario, cluster=None)
    assert result.code == 0
    assert result.answer.startswith("bayplan: all 6 pods ran")


def test_afterwards_ctrl_c_means_what_it_did_before(bayplan: Bayplan, scripted: type[Scripted], scenario: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    bayplan("simulate", scenario, cluster=None)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    "share, now, line",
    [
        (0.0, 0.0, "bayplan   ░░░░░░░░░░░░░░░░░░░░░░░░   0 %  simulated 0s"),
        (0.61, 192.0, "bayplan   ██████████████░░░░░░░░░░  61 %  simulated 3m12s"),
        (1.0, 600.0, "bayplan   ████████████████████████ 100 %  simulated 10m"),
    ],
)
def test_the_bar(share: float, now: float, line: str) -> None:
    assert progress_line("bayplan", share, now) == line


def test_a_bar_is_shown_on_a_terminal_and_taken_away(
    bayplan: Bayplan, scripted: type[Scripted], scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    result = bayplan("simulate", scenario, cluster=None)
    assert "\r\x1b[Kblind     ░" in result.err
    assert result.err.endswith("\r\x1b[K")


def test_another_seed_draws_other_arrivals(bayplan: Bayplan, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("replicas: 6", "replicas: 6\n  arrive: {rate: 1/s}"))

    def started(*options: object) -> object:
        output = bayplan("simulate", scenario, "--compare", "bayplan", "-o", "json", *options, cluster=None).out
        return json.loads(output)["runs"][0]["allRunningAtSeconds"]

    assert started() == started("--seed", 0)
    assert started() != started("--seed", 1)


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "ReplicaSet", "Job", "Pod"])
def test_a_workload_has_the_kind_that_its_user_wrote(bayplan: Bayplan, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(
        "nodes: [{name: n, machine: core:12 pu:2 mem:48Gi}]\n"
        f"workloads: [{{name: w, kind: {kind}, replicas: 1, pod: {{resources: {{cpu: 1, memory: 1Gi}}}}}}]\n"
    )
    document = json.loads(bayplan("simulate", file, "-o", "json", cluster=None).out)
    (workload,) = document["runs"][0]["workloads"]
    assert workload["kind"] == kind
