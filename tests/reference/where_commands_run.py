"""Where each command of the documents is tried, so that none is left out.

What is neither listed here nor answers without a cluster runs on an API server
(tests/kubernetes/test_documented_commands.py).
"""

from __future__ import annotations

from tests.reference.written_commands import Written, written_commands

OFFLINE = (
    *("completion", "extender-config", "simulate", "snapshot", "replay"),
    *("place", "why", "nodes", "numa", "topology", "slots"),
)
"""Commands of bayplan that need no cluster, or take a dump for one."""

GETTING_STARTED = "tests/kubernetes/test_getting_started.py"
ELSEWHERE = {
    "bayplan demo": "tests/unit/cli/test_demo.py",
    "bayplan demo --report demo.html": "tests/unit/cli/test_demo.py",
    "make demo": "tests/unit/cli/test_demo.py, by the command that it runs",
    "bayplan simulate demo": "tests/unit/test_readme.py",
    "bayplan simulate examples/scenarios/demo.yaml": "tests/unit/test_readme.py",
    "bayplan nodes --watch": "tests/unit/cli/test_live.py: it goes on until Ctrl-C",
    "bayplan simulate demo --serve --pace 60s": "tests/web/test_simulation.py: it goes on until Ctrl-C",
    "pip install ./examples/extension": "tests/unit/test_extensions.py",
    "bayplan why ml/large --cluster examples/extension/cluster.yaml "
    "--config examples/extension/scheduler-config.yaml": "tests/unit/test_extensions.py",
    "bayplan why ml/train-0 --cluster examples/extension/cluster.yaml "
    "--config examples/extension/scheduler-config.yaml": "tests/unit/test_extensions.py",
    "bayplan place -f examples/extension/team-job.yaml --cluster examples/extension/cluster.yaml "
    "--config examples/extension/scheduler-config.yaml": "tests/unit/test_extensions.py",
    "python -m tests.kubernetes.control_plane run --scheduler": "tests/kubernetes/test_control_plane.py",
    "make test": "this run",
    'bayplan numa "$(kubectl get pod packet-worker --output=jsonpath={.spec.nodeName})"': GETTING_STARTED,
    "kubectl wait --for=condition=PodScheduled pod/packet-worker --timeout=180s": GETTING_STARTED,
}
"""Commands that another test runs."""

NOT_RUN = {
    "make image": "needs a container engine; tests/kubernetes/test_image.py makes the same tree and runs it",
    "helm test": "runs a pod; tests/kubernetes/test_chart.py runs its command line under its account",
    "kubectl -n bayplan-system rollout status": "waits for containers, which no virtual node runs",
    "kubectl -n bayplan-agent exec": "needs a container",
    "kubectl port-forward": "needs a container",
    "kubectl -n bayplan-system port-forward": "needs a container",
    "curl localhost:10361": "asks through the port-forward; tests of the scheduler ask the same paths",
    "kustomize edit": "changes a file of the checkout; kubectl has no such command",
    "bayplan agent --pod telco/upf-0": "needs a kubelet; tests/kubernetes/test_agent_pods.py has one",
    "bayplan agent --oneshot --no-publish --sysfs-root copied/sys": "needs a copy of another machine's /sys",
    "bayplan agent --kubelet-config": "needs a kubelet; tests/kubernetes/test_agent.py has one",
    "kind create cluster": "needs a container engine",
    "minikube start": "needs a container engine",
    "kubectl krew install": "needs krew and a release; tests/kubernetes/test_plugin.py runs what it installs",
}
"""Commands by how they begin, and why no test runs them as they stand."""

SHOWS_AN_ERROR = "docs/commands.md"
"""Its pod.yaml has the misspelt fields that the page speaks of."""


def offline_commands() -> list[Written]:
    """Those that answer from files."""
    return [each for each in written_commands() if _is_offline(each)]


def live_commands() -> list[str]:
    """Those that need an API server, each once."""
    found = (each.command for each in written_commands() if not _is_offline(each) and not why_not_run(each.command))
    return list(dict.fromkeys(command for command in found if command not in ELSEWHERE))


def why_not_run(command: str) -> str:
    """The reason; empty if it runs."""
    return next((why for begin, why in NOT_RUN.items() if command.startswith(begin)), "")


def _is_offline(written: Written) -> bool:
    words = written.command.split()
    if written.command in ELSEWHERE or "kubectl" in written.command or "|" in words:
        return False
    if written.page == SHOWS_AN_ERROR and written.output:
        return False
    return words[0] == "bayplan" and words[1] in OFFLINE
