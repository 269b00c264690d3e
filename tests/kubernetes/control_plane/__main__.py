"""Build the control plane, or run one by hand: `python -m tests.kubernetes.control_plane [build | run] [--optional]
[--scheduler]`.

`build` is what `make control-plane` does: it makes what is missing and says where it lies. `--optional` counts it as
success where the programs cannot be had (no Go, no network); the tests that need them are skipped then. `run` starts a
control plane, with `--scheduler` the stock kube-scheduler too, prints its kubeconfig and waits for Ctrl-C. The version
of Kubernetes comes from `BAYPLAN_KUBERNETES_VERSION`.
"""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import suppress

from tests.kubernetes.control_plane.build import build_missing
from tests.kubernetes.control_plane.go_build import BuildFailed
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, UnknownVersion, find_programs


def main() -> int:
    """Build, then run if asked to; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.control_plane", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["build", "run"], default="build")
    parser.add_argument("--optional", action="store_true", help="succeed where the programs cannot be had")
    parser.add_argument("--scheduler", action="store_true", help="run the stock kube-scheduler, too")
    arguments = parser.parse_args()
    if arguments.scheduler and arguments.command != "run":
        parser.error("--scheduler goes with run")
    try:
        build_missing()
    except NoControlPlane as problem:
        sys.stderr.write(f"control plane: {problem}\n")
        return 0 if arguments.optional else 1
    except (BuildFailed, UnknownVersion) as problem:
        sys.stderr.write(f"control plane: {problem}\n")
        return 1
    if arguments.command == "run":
        _run_until_interrupted(with_scheduler=arguments.scheduler)
    else:
        sys.stdout.write(f"control plane: {find_programs().kube_apiserver.parent}\n")
    return 0


def _run_until_interrupted(*, with_scheduler: bool) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either way the plane is taken down in order
    with ControlPlane() as plane, suppress(KeyboardInterrupt):
        if with_scheduler:
            plane.start_stock_scheduler()
        sys.stdout.write(f"export KUBECONFIG={plane.kubeconfig}\n")
        sys.stdout.flush()
        signal.pause()


sys.exit(main())
