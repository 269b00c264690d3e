"""`bayplan kubelets` with options that cannot be meant: one line each, and nothing is sent anywhere."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import EXAMPLES, Bayplan


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--machine", "cores:4"], '--machine: "cores:4" is unknown'),
        (
            ["--nodes", "2", "--nodes", "3"],
            "--nodes is given 2 times for 1 of --machine: must be once, or once for each",
        ),
        (["--nodes", "0"], "Invalid value for '--nodes': 0 is not in the range x>=1"),
        (["--kubelet", "policy=strict"], '--kubelet: topologyManagerPolicy: "strict" is not allowed'),
        (["--labels", "rack"], "--labels: 'rack' is not understood: must be KEY=VALUE"),
        (["--report-delay", "soon"], '--report-delay: "soon" is no duration'),
        (["--heartbeat", "-1s"], '--heartbeat: "-1s" is negative'),
        (["--scenario", str(EXAMPLES / "scenarios/demo.yaml"), "--nodes", "3"], "--nodes does not go with --scenario"),
        (["--scenario", "no-such.yaml"], "no-such.yaml: does not exist"),
        (["--kubeconfig", "no-such-file"], "no-such-file"),
    ],
)
def test_one_message(arguments: list[str], problem: str, bayplan: Bayplan) -> None:
    result = bayplan("kubelets", *arguments, cluster=None)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert problem in result.err
    assert result.err.count("\n") == 1
