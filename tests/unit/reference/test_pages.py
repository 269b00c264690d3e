"""The reference pages in docs/ are what the code says now; `make reference` writes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.reference import DOCS, PAGES
from tests.reference.events import TABLE as EVENTS
from tests.reference.events import reasons_in_source
from tests.reference.formats import schema_text, schemas
from tests.reference.labels import TABLE as LABELS
from tests.reference.labels import keys_in_source
from tests.reference.metrics import OUTBOXES

RUN = Path(__file__).parents[3] / "src" / "bayplan" / "services" / "scheduler" / "run.py"


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_page_is_current(page: str) -> None:
    assert (DOCS / page).read_text() == PAGES[page](), "run `make reference`"


def test_the_schemas_are_current_and_no_other_is_left() -> None:
    found = {file.stem: file.read_text() for file in (DOCS / "schemas").glob("*.json")}
    assert found == {name: schema_text(name) for name in schemas()}, "run `make reference`"


def test_every_key_in_the_code_is_explained_and_no_other() -> None:
    assert {key for keys in LABELS.values() for key in keys} == keys_in_source()


def test_every_reason_in_the_code_is_explained() -> None:
    assert reasons_in_source() <= set(EVENTS)


def test_the_outboxes_are_those_of_the_scheduler() -> None:
    assert tuple(re.findall(r'expose_outbox\("(\w+)"', RUN.read_text())) == OUTBOXES
