"""python -m tests.reference: write the reference pages into docs/."""

from __future__ import annotations

import sys

from tests.reference import DOCS, PAGES
from tests.reference.formats import schema_text, schemas

for name, page in PAGES.items():
    (DOCS / name).write_text(page())
    sys.stdout.write(f"docs/{name}\n")
for name in schemas():
    (DOCS / "schemas" / f"{name}.json").write_text(schema_text(name))
    sys.stdout.write(f"docs/schemas/{name}.json\n")
