"""python -m tests.reference: write the reference pages into docs/."""

from __future__ import annotations

import sys

from tests.reference import DOCS, PAGES

for name, page in PAGES.items():
    (DOCS / name).write_text(page())
    sys.stdout.write(f"docs/{name}\n")
