"""Compare any number of random pods and print what was compared."""

from __future__ import annotations

import argparse
import sys

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.differential.comparing import compare
from tests.kubernetes.differential.scoring import compare_scores

PER_CLUSTER = 250


def main() -> int:
    """Compare in rounds, each with a cluster of its own; the exit code says whether all agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scores", action="store_true", help="compare scores instead of feasibility")
    asked = parser.parse_args()
    differences, compared = 0, 0
    with ControlPlane() as plane:
        for seed in range(asked.seed, asked.seed + -(-asked.pods // PER_CLUSTER)):
            tally = (compare_scores if asked.scores else compare)(plane, min(PER_CLUSTER, asked.pods - compared), seed)
            compared += tally.pods
            differences += len(tally.differences)
            sys.stdout.write(f"seed {seed}: {tally}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{compared} pods compared, {differences} differences\n")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
