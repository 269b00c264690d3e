"""Fifteen questions of new readers, each answered within two clicks from the first page of the documentation."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
START = "index.md"
_LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#([\w-]+))?\)")

# The question, the page that answers it, and words of the answer.
QUESTIONS = [
    ("How do I try it without a cluster?", "getting-started.md", "make demo"),
    ("How do I install it with Helm?", "../deploy/README.md", "helm install"),
    ("Why is my pod pending?", "troubleshooting.md", "bayplan why"),
    ("Why was my pod refused with TopologyAffinityError?", "troubleshooting.md", "TopologyAffinityError"),
    ("Is my installation sound?", "doctor.md", "bayplan doctor"),
    ("Which Kubernetes versions are supported?", "skew.md", "1.34 to 1.37"),
    ("How do I keep a gang in one block?", "gangs.md", "required"),
    ("Can I keep Kueue for quotas?", "kueue.md", "keeps its quota in Kueue"),
    ("How do I move from scheduler-plugins and NFD?", "migration.md", "nfd-topology-updater"),
    ("What does this event mean?", "events.md", "GangReleased"),
    ("What does bayplan.io/numa-zones say?", "labels.md", "bayplan.io/numa-zones"),
    ("Which metric shows waiting pods?", "metrics.md", "scheduler_pending_pods"),
    ("An alert fires: what do I do?", "runbook.md", "**Do:**"),
    ("How do I upgrade and roll back?", "operations.md", "## Upgrade"),
    ("How much memory does it need?", "operations.md", "## Sizing"),
]


def linked(page: str) -> set[str]:
    """The pages that a page links to, as paths from docs/."""
    folder = posixpath.dirname(page)
    text = (DOCS / page).read_text()
    return {posixpath.normpath(posixpath.join(folder, match[1])) for match in _LINK.finditer(text)}


@pytest.mark.parametrize("question,page,answer", QUESTIONS, ids=[question for question, _, _ in QUESTIONS])
def test_the_answer_is_within_two_clicks(question: str, page: str, answer: str) -> None:
    first = linked(START)
    second = {target for each in first for target in linked(each)}
    assert page in first | second
    assert answer in (DOCS / page).read_text()


def test_the_questions_are_listed_with_links_to_their_answers() -> None:
    rows = re.findall(r"^\| (.+?\?) \| (.+) \|$", (DOCS / "faq.md").read_text(), re.MULTILINE)
    listed = {question: {match[1] for match in _LINK.finditer(links)} for question, links in rows}
    assert list(listed) == [question for question, _, _ in QUESTIONS]
    assert [question for question, page, _ in QUESTIONS if page not in listed[question]] == []


def test_the_list_is_one_click_away() -> None:
    assert "faq.md" in linked(START)
