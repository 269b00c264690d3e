"""However narrow the terminal is: no line is longer, and nothing that a pipe gets is left out or cut."""

import re
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest

from bayplan.cli import program
from tests.reference.readers_folder import make_folder
from tests.reference.where_commands_run import offline_commands
from tests.running_commands import running
from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.gang_files import CLUSTER

WIDTHS = (60, 80, 100, 120)
MIXED_CLUSTER = Path(__file__).parent / "mixed_cluster.json.gz"
"""12 nodes as real ones look: GPUs behind taints, zones as NFD reports them, a cordoned node, long names."""

# Documents, scripts and files are not folded; the last two take long and print tables that other simulations print.
NOT_TRIED = re.compile(
    "bayplan (completion|extender-config|snapshot|replay)|.* (>|-o (json|yaml|svg)|--report)"
    "|bayplan simulate (gangs|examples/scenarios/preemption.yaml)"
)
DOCUMENTED = {
    each.command.replace(" --cluster cluster.json", "")
    for each in offline_commands()
    if not NOT_TRIED.match(each.command)
}
ON_THE_MIXED_CLUSTER = (
    "why -A",
    "why -A -o wide",
    "why telco/du-high-0 --preempt",
    "why ml/pretrain-a-worker-0",
    "nodes",
    "nodes -o wide",
    "topology dc",
    "topology dc -o wide",
    "topology dc --level numa",
    "topology dc --requests nvidia.com/gpu=1",
    "slots --requests cpu=4 --pods 4 --topology dc",
    "numa amd-nps4-1",
    "numa gpu-h100-1",
    "place -f pod.yaml -o wide",
    "place -f deployment.yaml",
    "doctor",
)
ON_GANGS = (
    "place -f examples/gangs/pretrain.yaml -o wide",
    "place -f examples/gangs/too-large.yaml",
    "why ml/finetune",
    "topology --level numa",
)
# Bars and boxes are drawn for the width that there is.
DRAWN = re.compile("[─-╿▀-▟■□→]+")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("reader"))


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def words_of(text: str) -> Counter[str]:
    """Each word, number and name, and how often; hosts in brackets one by one."""
    return Counter(word.rstrip(":") for word in re.split(r"[\s,]+", DRAWN.sub(" ", text)) if word.rstrip(":"))


@pytest.mark.parametrize(
    "command",
    [
        *sorted(DOCUMENTED),
        *(f"bayplan {command} --cluster {MIXED_CLUSTER}" for command in ON_THE_MIXED_CLUSTER),
        *(f"bayplan {command} --cluster {CLUSTER}" for command in ON_GANGS),
        "bayplan scheduler --check-config --config examples/scheduler-config.yaml",
    ],
)
def test_a_terminal_gets_every_word_that_a_pipe_gets_in_lines_that_fit(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = shlex.split(command)
    if words[1] in ("place", "why", "nodes", "numa", "topology", "slots") and "--cluster" not in words:
        words += ["--cluster", "cluster.json"]
    program.run(words)
    piped = capsys.readouterr()
    for width in WIDTHS:
        with monkeypatch.context() as patched:
            on_a_terminal(patched, width)
            program.run(words)
        for whole, shown in zip(piped, capsys.readouterr(), strict=True):
            assert [line for line in shown.splitlines() if len(line) > width and len(line.split()) > 1] == []
            assert words_of(whole) - words_of(shown) == Counter()


@pytest.mark.parametrize("command", ["", *program.COMMANDS])
def test_the_help_of_a_command_fits(bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    for width in WIDTHS:
        on_a_terminal(monkeypatch, width)
        lines = bayplan(*command.split(), "--help", cluster=None).out.splitlines()
        # An option with all that it takes counts as one name.
        assert [line for line in lines if len(line) > width and not line.startswith("  -")] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_commands_that_the_demo_shows_can_still_be_typed(
    bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, width: int
) -> None:
    monkeypatch.chdir(tmp_path)  # so that the paths are long
    really = program.run
    monkeypatch.setattr(program, "run", lambda words: really(words) if words[1] == "demo" else 0)
    piped = bayplan("demo", cluster=None).out
    on_a_terminal(monkeypatch, width)
    shown = bayplan("demo", cluster=None).out
    assert [line for line in shown.splitlines() if len(line) > width and len(line.split()) > 2] == []
    typed = [line.split() for line in re.sub(r" \\\n", " ", shown).splitlines()]
    assert all(line.split() in typed for line in piped.splitlines() if line.startswith(("   $ ", "     ")))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_nodes_show_their_names_their_state_and_free_gpus(
    bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    on_a_terminal(monkeypatch, width)
    text = bayplan("nodes", "gpu-h100-2", "amd-nps4-4", cluster=MIXED_CLUSTER).out
    assert "amd-nps4-4" in text
    assert "cordoned" in text
    assert re.search(r"gpu free: 6", text)


def test_folded_cells_stay_in_their_columns(bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch, 80)
    lines = bayplan("why", "-A", cluster=MIXED_CLUSTER).out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith("  shop/cache-0"))
    column = lines[at].index("waits for its volumes:")
    words = [lines[at].removesuffix("shop/cache-0"), *lines[at + 1 : at + 3]]
    assert [line[:column].strip() for line in words] == ["1", "", ""]
    assert " ".join(" ".join(line[column:] for line in words).split()).startswith(
        'waits for its volumes: persistentvolumeclaim "data-cache-0" not found'
    )


def test_errors_and_warnings_fold_between_words(
    bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pod = tmp_path / ("a-long-name-of-a-file-" * 4 + ".yaml")
    pod.write_text("kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [{name: c, imag: i}]}\n")
    on_a_terminal(monkeypatch, 60)
    lines = bayplan("place", "-f", pod).err.splitlines()
    assert lines[0].startswith("error: ")
    assert str(pod) in "".join(lines)
    assert [line for line in lines if len(line) > 60 and len(line.split()) > 1] == []
    assert all(line.startswith(("error: ", "  ")) for line in lines)


def test_a_terminal_is_asked_for_its_width() -> None:
    with running("why", "-A", "--cluster", str(MIXED_CLUSTER), on_terminal=True) as command:
        text = re.sub(r"\x1b\[[0-9;]*m", "", command.until("a workload."))
    lines = text.splitlines()
    assert 70 < max(map(len, lines)) <= 80
    assert [line for line in lines if re.fullmatch(r" +1 +larger than every NUMA zone: cpu +telco/du-high-0", line)]
