"""`make lint`: phrases that do not belong in bayplan's prose, and overlong names of tests.

docs/style.md says how we write.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BANNED = {
    r"whoever": "name the actor",
    r"nobody": "no pod, no user, nothing",
    r"somebody": "another client, a user",
    r"anybody": "any client, any pod",
    r"(is|are) told so": "its event says so",
    r"whom": "which",
    r"for ever": "forever, endlessly",
    r"mended": "fixed",
    r"may not": "must not, cannot, might not",
    r"no right too many": "least-privilege RBAC",
    r"yours to say": "set it",
    r"(taken )?at its word": "trusted as is",
    r"left aside": "ignored, orphaned",
    r"of which nobody": "unused",
}
CHECKED = (
    "src/*.py",
    "tests/*.py",
    "benchmarks/*.py",
    "docs/*.md",
    "deploy/*.md",
    "examples/*.md",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
)
EXEMPT = {
    "docs/style.md",  # names the banned words
    "tests/prose_check.py",
    "tests/unit/cluster/reports/test_fingerprint.py",  # hashes a sentence that others hash, too
}
LONGEST_TEST_NAME = 80
_TEST_NAME = re.compile(r"def (test_\w+)")
_PATTERN = re.compile("|".join(rf"\b{phrase}\b" for phrase in BANNED), re.IGNORECASE)


def findings() -> list[str]:
    """One line for each banned phrase or overlong test name: file, line, and what to write instead."""
    listed = subprocess.run(["git", "ls-files", *CHECKED], cwd=ROOT, capture_output=True, text=True, check=True)
    found = []
    for name in set(listed.stdout.split()) - EXEMPT:
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1):
            test = _TEST_NAME.search(line)
            if test and len(test[1]) > LONGEST_TEST_NAME:
                found.append(f"{name}:{number}: {test[1]}: {len(test[1])} characters, at most {LONGEST_TEST_NAME}")
            for match in _PATTERN.finditer(line.replace("_", " ") if test else line):
                better = next(text for phrase, text in BANNED.items() if re.fullmatch(phrase, match[0], re.IGNORECASE))
                found.append(f'{name}:{number}: "{match[0]}": {better}')
    return sorted(found)


def main() -> int:
    """Print what was found; 1 if there is anything."""
    found = findings()
    print("\n".join(found) if found else "prose: no banned phrase")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
