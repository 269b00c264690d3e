"""The reference pages in docs/ that are written from the code: `make reference` writes them, a unit test holds them
current.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.reference.commands import command_pages
from tests.reference.events import events_page
from tests.reference.formats import formats_page
from tests.reference.labels import labels_page
from tests.reference.metrics import metrics_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "metrics.md": metrics_page,
    "labels.md": labels_page,
    "events.md": events_page,
    "cli.md": command_pages,
    "formats.md": formats_page,
}
"""Each page and the function that writes it."""
