"""The command line itself: help at once, clear errors, the name users typed."""

import subprocess
import sys

import pytest

from bayplan import __version__
from tests.unit.cli.conftest import Bayplan

HEAVY = ("numpy", "msgspec", "yaml", "rich", "aiohttp")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["place", "--help"], ["why", "-h"], ["numa", "--help"]]
)
def test_help_does_not_wait_for_heavy_imports(arguments: list[str]) -> None:
    script = (
        "import sys; from bayplan.cli.program import run; "
        f"code = run(['bayplan', *{arguments!r}]); "
        f"sys.exit(code or ', '.join(name for name in {HEAVY!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_help_begins_with_what_it_is_for_and_examples(bayplan: Bayplan) -> None:
    result = bayplan("--help", cluster=None)
    assert result.code == 0
    assert result.answer.startswith("bayplan places Kubernetes pods by topology")
    assert result.out.index("Examples:") < result.out.index("Commands:")


@pytest.mark.parametrize("command", ["place", "why", "numa"])
def test_every_command_shows_examples_first(bayplan: Bayplan, command: str) -> None:
    result = bayplan(command, "--help", cluster=None)
    assert result.code == 0
    assert result.out.index("Examples:") < result.out.index("Options:")
    assert f"  bayplan {command} " in result.out
    assert "Exit code" in result.out


def test_as_a_kubectl_plugin_the_help_says_kubectl(bayplan: Bayplan) -> None:
    result = bayplan("place", "--help", cluster=None, program="/usr/local/bin/kubectl-bayplan")
    assert "Usage: kubectl bayplan place" in result.out
    assert "  kubectl bayplan place -f pod.yaml" in result.out


def test_no_arguments_show_the_help(bayplan: Bayplan) -> None:
    assert bayplan(cluster=None).out == bayplan("--help", cluster=None).out


def test_the_version_is_the_package_version(bayplan: Bayplan) -> None:
    assert bayplan("--version", cluster=None).out == f"bayplan {__version__}\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["get"],
            (
                "error: no command 'get'; known: demo, place, why, nodes, numa, topology, slots, web, doctor, "
                "simulate, scheduler, extender, extender-config, pod-grouper, agent, agent-gc, kubelets, snapshot, "
                "replay, completion. See"
            ),
        ),
        (["place"], "error: Missing option '-f' / '--filename'. See 'bayplan place --help'."),
        (["why"], "error: which pod? Give POD or PODGROUP; or -A for everything that waits"),
        (["numa", "n", "--colour"], "error: No such option"),
        (["numa", "n", "-o", "png"], "error: Invalid value for '-o' / '--output': 'png' is not one of"),
    ],
)
def test_a_wrong_command_line_is_one_line_on_stderr(bayplan: Bayplan, arguments: list[str], message: str) -> None:
    result = bayplan(*arguments, cluster=None)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(message)
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("module", ["click", "bayplan.cli.program", "bayplan.cli.options.common"])
def test_ctrl_c_among_the_imports_ends_without_a_traceback(module: str) -> None:
    script = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
class PressCtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, PressCtrlC())
from bayplan.cli.main import main
sys.argv = ["bayplan", "simulate", "scenario.yaml"]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


TIDIES_UP_SLOWLY = """
import atexit, signal, time
from bayplan.cli import main, program
def busy(_argv):
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        time.sleep(1.5)  # longer than until the program is asked again
        print("tidied up")
program.run = busy
class FreedLate:
    def __del__(self, sleep=time.sleep):  # after Python has given up its signal handlers
        sleep(1.5)
late = FreedLate()
main.main()
"""


def test_a_program_that_tidies_up_or_ends_slowly_is_not_asked_again() -> None:
    done = subprocess.run([sys.executable, "-c", TIDIES_UP_SLOWLY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, "tidied up\n", "")
