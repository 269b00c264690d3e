"""A recording with an operation that the runner does not know is a failure of that case; the others of its file are
still judged.
"""

from __future__ import annotations

import pytest

from tests.conformance.conftest import Case, Conformance


def problem_of(case: Case) -> str | None:
    operations = {"known": lambda: None}
    return operations[case["op"]]()


def test_an_unknown_operation_fails_one_case_and_not_the_file() -> None:
    cases = [{"id": "first", "op": "known"}, {"id": "strange", "op": "unheard-of"}, {"id": "last", "op": "known"}]
    found = Conformance("nrt/misc", cases, {})
    with pytest.raises(pytest.fail.Exception, match="1 of 3 cases of nrt/misc differ"):
        found.check_each(problem_of)
    assert found.outcome["passed"] == 2
    assert found.outcome["failed"] == {"strange": "raised KeyError: 'unheard-of'"}
