"""Run Kubernetes' scheduling specs against bayplan and print one line for each."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.kubernetes.control_plane.build import build_missing as build_control_plane
from tests.kubernetes.controllers.build import build_missing
from tests.kubernetes.controllers.catalogue import MANAGER
from tests.kubernetes.e2e.outcomes import FAILED, PASSED, SKIPPED, read_outcomes
from tests.kubernetes.e2e.running import run_specs, specs


def main() -> int:
    """Build what is missing, run, print; the exit code says whether a spec failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.e2e", description=__doc__)
    parser.add_argument("--focus", default="", help="a regular expression: only specs whose names match")
    parser.add_argument("--stock", action="store_true", help="with the stock kube-scheduler in bayplan's place")
    parser.add_argument("--log", type=Path, help="where the specs' own output goes")
    asked = parser.parse_args()
    build_control_plane()
    problems = build_missing([MANAGER, specs()])
    if problems:
        sys.stderr.write("\n".join(problems) + "\n")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        code = run_specs(report, focus=asked.focus, stock=asked.stock, say=asked.log)
        outcomes = read_outcomes(report) if report.exists() else []
    for each in outcomes:
        sys.stdout.write(f"{each}\n")
    counts = Counter(each.outcome for each in outcomes)
    sys.stdout.write(", ".join(f"{counts[outcome]} {outcome}" for outcome in (PASSED, SKIPPED, FAILED)) + "\n")
    return int(code != 0 or not outcomes)


if __name__ == "__main__":
    sys.exit(main())
