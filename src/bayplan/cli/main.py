"""The way into `bayplan` and `kubectl bayplan`, light enough that no signal comes before it.

Importing the rest takes a tenth of a second, in which people press Ctrl-C too: that ends with exit code 130 and without
a traceback. SIGTERM unwinds everything that is open, so that no half-written file stays behind. `program.py` is next.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

EXIT_INTERRUPTED = 130
EXIT_BY_SIGNAL = 128  # plus the signal's number, as shells count


def main() -> None:
    """Run the command line and end the process."""
    try:
        signal.signal(signal.SIGTERM, _unwind)
        from bayplan.cli.program import prepare, run

        prepare()
        sys.exit(run(sys.argv))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    finally:
        # Unwound: there is no need to ask again, and once Python has given up its handlers, SIGALRM would kill us.
        signal.setitimer(signal.ITIMER_REAL, 0)


def _unwind(number: int, _frame: FrameType | None) -> None:
    def ask(_number: int = 0, _frame: FrameType | None = None) -> None:
        # While files are removed on the way out, being asked again would leave them behind.
        if not isinstance(sys.exception(), SystemExit):
            sys.exit(EXIT_BY_SIGNAL + number)

    # Code in C may lose an exception, and importing numpy does so; then we ask again.
    signal.signal(signal.SIGALRM, ask)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    ask()
