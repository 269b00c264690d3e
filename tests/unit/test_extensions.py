"""Packages that extend bayplan: the example is installed and used, and broken ones are named."""

from __future__ import annotations

import dataclasses
import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan import api, extensions
from bayplan.dialects.registry import dialects, gang_named
from bayplan.extensions import BrokenExtension, compat_names, forget_entries, load, registered
from bayplan.kube.resources import pod_groups
from bayplan.plugins import added
from bayplan.plugins.registry import build_plugin
from tests.builders.clusters import cluster
from tests.builders.entries import entries_of
from tests.builders.objects import node, simple_pod

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "extension"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package in a folder of its own, as pip puts it there."""
    folder = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)], check=True, capture_output=True)
    return folder


def pythonpath(site: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))}


def bayplan(*words: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "bayplan"
    arguments = (*words, "--cluster", str(EXAMPLE / "cluster.yaml"), "--config", str(EXAMPLE / "scheduler-config.yaml"))
    environment = os.environ | (pythonpath(site) if site else {})
    return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_a_plugin_of_another_package_filters_and_explains(installed: Path) -> None:
    answer = bayplan("why", "ml/large", site=installed)
    first = "ml/large is Pending: no node passes PowerBudget: rack has less than 1000 W of headroom."
    assert (answer.returncode, answer.stdout.splitlines()[0]) == (1, first)


def test_a_gang_of_another_package_is_placed_from_a_file(installed: Path) -> None:
    answer = bayplan("place", "-f", str(EXAMPLE / "team-job.yaml"), site=installed)
    assert (answer.returncode, answer.stderr.count("infer")) == (0, 0), answer.stderr
    assert answer.stdout.startswith("ml/infer fits: rack r1, node n1 (optimal)")


@pytest.mark.parametrize(
    "written, problem",
    [
        ("togetherIn: rak", 'spec.togetherIn: "rak" is not a level; the topology has rack, kubernetes.io/hostname'),
        ("pods: 0", "spec.pods: 0 must be 1 or more"),
    ],
)
def test_errors_use_the_words_of_the_package(installed: Path, tmp_path: Path, written: str, problem: str) -> None:
    field, _, value = written.partition(": ")
    text = re.sub(rf"{field}: \w+", f"{field}: {value}", (EXAMPLE / "team-job.yaml").read_text())
    (tmp_path / "wrong.yaml").write_text(text)
    answer = bayplan("place", "-f", str(tmp_path / "wrong.yaml"), site=installed)
    assert (answer.returncode, "TeamJob ml/infer" in answer.stderr, problem in answer.stderr) == (2, True, True)


def test_a_dialect_of_another_package_makes_gangs(installed: Path) -> None:
    answer = bayplan("why", "ml/train-0", site=installed)
    first = "ml/train-0 is Pending: its gang ml/train fits: rack r1, 2 nodes (optimal)"
    assert (answer.returncode, answer.stdout.splitlines()[0]) == (0, first)
    assert "unknown field" not in answer.stderr


def test_a_snapshot_with_the_group_objects_of_another_package_is_decided_alike(installed: Path, tmp_path: Path) -> None:
    program = [str(Path(sys.executable).parent / "bayplan")]
    config = ["--config", str(EXAMPLE / "scheduler-config.yaml")]
    environment = os.environ | pythonpath(installed)
    taken = subprocess.run(
        [*program, "snapshot", "--cluster", str(EXAMPLE / "cluster.yaml"), *config],
        env=environment,
        capture_output=True,
        check=True,
    )
    snapshot = tmp_path / "snapshot.json.gz"
    snapshot.write_bytes(taken.stdout)
    replayed = subprocess.run([*program, "replay", str(snapshot)], env=environment, check=False)
    assert (replayed.returncode, b'"TeamJob"' in gzip.decompress(taken.stdout)) == (0, True)


BROKEN_PACKAGE = """
from bayplan.api import ScorePlugin

class PowerBudget(ScorePlugin):
    name, reads_usage = "PowerBudget", False

    def applies_score(self, pod):
        return True

    def scores(self, state, pod, rows):
        raise KeyError("boop")

def power_budget(arguments):
    return PowerBudget()
"""


def test_a_command_names_the_package_whose_plugin_fails(tmp_path: Path) -> None:
    about = tmp_path / "squad_pkg-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: squad-pkg\nVersion: 1.0\n")
    entry = "PowerBudget = squad_pkg:power_budget"
    (about / "entry_points.txt").write_text(f"[bayplan.plugins]\n{entry}\n[bayplan.dialect]\n{entry}\n")
    (tmp_path / "squad_pkg.py").write_text(BROKEN_PACKAGE)
    answer = bayplan("why", "ml/large", site=tmp_path)
    told = [each for each in answer.stderr.splitlines() if "squad-pkg" in each]
    whose = '"PowerBudget" of package squad-pkg'
    failed = "failed in scores: KeyError: 'boop'; report it to that package"
    assert (answer.returncode, answer.stdout) == (2, "")
    assert told == [
        f"warning: bayplan.dialect: {whose} is ignored; did you mean bayplan.dialects?",
        f"error: bayplan.plugins: {whose} {failed}",
    ]
    assert "please report" not in answer.stderr


def test_without_the_package_its_plugin_is_unknown() -> None:
    answer = bayplan("why", "ml/large")
    assert (answer.returncode, "bayplan has no plugin PowerBudget" in answer.stderr) == (2, True)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    listed: list[EntryPoint] = []
    monkeypatch.setattr(metadata, "entry_points", lambda: EntryPoints(listed))
    forget_entries()
    yield listed
    forget_entries()


def test_a_broken_extension_is_named(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint("Odd", "no_such_package:plugin", extensions.PLUGINS))
    with pytest.raises(
        BrokenExtension, match=r'bayplan\.plugins: "Odd" of package .* cannot be loaded: No module named'
    ):
        load(extensions.PLUGINS, "Odd")


def test_two_packages_cannot_have_one_name(entries: list[EntryPoint]) -> None:
    entries += [EntryPoint("Same", value, extensions.PLUGINS) for value in ("a:plugin", "b:plugin")]
    with pytest.raises(BrokenExtension, match='"Same" is registered by a:plugin and by b:plugin'):
        registered(extensions.PLUGINS)


@pytest.fixture
def added_dialects(entries: list[EntryPoint]) -> Iterator[list[EntryPoint]]:
    known = (dialects, pod_groups)
    for each in known:
        each.cache_clear()
    yield entries
    for each in known:
        each.cache_clear()


@pytest.mark.parametrize(
    "name, value, problem",
    [
        ("odd", "bayplan.dialects.kai.pod_group:gang_of", r'"odd" of package \? is a function, not a Dialect'),
        (
            "again",
            "bayplan.dialects.kai.pod_group:DIALECT",
            r'"again" of package \? has the name of another dialect, kai',
        ),
    ],
)
def test_a_dialect_that_would_hide_another_is_refused(
    added_dialects: list[EntryPoint], name: str, value: str, problem: str
) -> None:
    added_dialects.append(EntryPoint(name, value, extensions.DIALECTS))
    with pytest.raises(BrokenExtension, match=problem):
        dialects()


def test_without_the_compat_room_there_are_no_rules_of_others(entries: list[EntryPoint]) -> None:
    assert entries == []
    assert compat_names(extensions.PLACEMENT_STYLE) == ()
    with pytest.raises(LookupError, match=r'bayplan\.compat: "placement-style\.kueue" is not registered'):
        extensions.compat(extensions.PLACEMENT_STYLE, "kueue")


def test_every_public_name_is_there() -> None:
    assert sorted(api.__all__) == api.__all__
    assert all(hasattr(api, name) for name in api.__all__)


PAGE = (ROOT / "docs" / "extending.md").read_text()


def names_of(*headings: str) -> dict[str, Any]:
    """What the Python of these sections of the page defines, one after the other."""
    found: dict[str, Any] = {}
    for heading in headings:
        code = PAGE.split(f"\n{heading}\n")[1].split("```python\n")[1].split("```")[0]
        exec(compile(code, f"extending.md: {heading}", "exec", dont_inherit=True), found)
    return found


def test_the_plugin_of_the_page_scores_nodes() -> None:
    with entries_of((extensions.PLUGINS, "PreferSsd", names_of("## A plugin")["prefer_ssd"])):
        plugin: Any = build_plugin("PreferSsd", None)
        with pytest.raises(api.ArgumentError, match="disk: unknown argument; PreferSsd accepts none"):
            build_plugin("PreferSsd", {"disk": "ssd"})
    state = cluster(nodes=[node("n1", labels={"disk": "hdd"}), node("n2", labels={"disk": "ssd"}), node("n3")])
    pod = state.classes.of(simple_pod({"cpu": 1}))
    assert plugin.scores(state, pod, slice(0, 3)).tolist() == [0, 100, 0]
    assert plugin.score(state, pod, 1) == 100


def test_the_dialect_of_the_page_and_its_test() -> None:
    written = names_of("## A dialect", "## Testing")
    written["test_a_squad_waits_for_all_of_its_pods"]()
    with entries_of((extensions.DIALECTS, "squad", written["DIALECT"])):
        assert gang_named(written["members"](1)[0]) == "squad ml/red"
    squad = msgspec.convert({"metadata": {"name": "red"}, "spec": {"size": 0}}, written["Squad"])
    with pytest.raises(api.InvalidObject, match=r"Squad red: spec\.size: must be 1 or more"):
        written["gang_of"](squad, [], api.Topologies())


def test_the_segmented_dialect_of_the_page_makes_gangs() -> None:
    dialect = names_of("### Segments")["DIALECT"]
    slice_set = msgspec.convert(
        {"metadata": {"name": "train"}, "spec": {"slices": 2, "podsPerSlice": 2}}, dialect.written_as
    )
    pods = [simple_pod({"cpu": 1}, f"p{number}", labels={"example.com/slice-set": "train"}) for number in range(4)]
    assert {dialect.group_named(pod) for pod in pods} == {"train"}
    assert isinstance(dialect.gang_of(slice_set, pods[:3], None), api.Incomplete)
    gang = dialect.gang_of(slice_set, pods, None)
    assert (gang.name, len(gang.pods), gang.root.segments) == (
        "default/train",
        4,
        (api.Segments(2, "example.com/rack"),),
    )


def test_the_page_lists_the_public_names_and_the_members_of_plugins() -> None:
    table = PAGE.split("\n## Public names\n")[1].split("\n## ")[0]
    listed = [name for name in re.findall(r"`(\w+)`", table) if name != "bayplan"]
    assert sorted(listed) == api.__all__
    section = PAGE.split("\n## A plugin\n")[1].split("\n## ")[0]
    members = dict(re.findall(r"^\| `(\w+)[^`]*` \| [^|]+ \| ([^|]+) \|", section, re.MULTILINE))
    optional = {"refusal", "score"}
    assert {name for name, required in members.items() if required == "no"} == optional
    assert members.keys() - optional == {*added.EVERY_PLUGIN, *added.FILTER, *added.SCORE}
    fields = PAGE.split("\n### Fields of a Dialect\n")[1].split("\n## ")[0]
    first_cells = " ".join(line.split("|")[1] for line in fields.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)", first_cells)) == {each.name for each in dataclasses.fields(api.Dialect)}
