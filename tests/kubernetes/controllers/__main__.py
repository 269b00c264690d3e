"""Build the controllers that tests run beside the control plane: `python -m tests.kubernetes.controllers [NAME ...]`.

This is what `make controllers` does. Without names it builds all. It succeeds if everything that was asked for is
there.
"""

from __future__ import annotations

import argparse
import sys

from tests.kubernetes.controllers.build import build_missing
from tests.kubernetes.controllers.catalogue import CONTROLLERS


def main() -> int:
    """Build what is missing; returns the exit status."""
    names = [controller.name for controller in CONTROLLERS]
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.controllers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}; all if none is given")
    wanted = parser.parse_args().names
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        parser.error(f"no controller is called {', '.join(unknown)}; there are {', '.join(names)}")
    chosen = [controller for controller in CONTROLLERS if not wanted or controller.name in wanted]
    problems = build_missing(chosen)
    for controller in chosen:
        if controller.is_built:
            sys.stdout.write(f"controllers: {controller.program}\n")
    return 1 if problems else 0


sys.exit(main())
