"""Go's regular expressions on Python's: what both read alike, what only Go knows, and what Go refuses."""

from __future__ import annotations

import re
import warnings

import pytest

from bayplan.kube.go_regexp import compile_go


@pytest.mark.parametrize(
    "pattern, found, not_found",
    [
        ("rack1", "my-rack1-n0", "rack-1"),
        ("^gpu-[0-9]+$", "gpu-12", "gpu-12a"),
        ("^(a|b)-(?:c)?$", "b-", "c-"),
        (r"node-\d{2}\z", "node-12", "node-123"),
        (r"\An\.x", "n.x", "nax"),
        (r"\Qa.b\E-1", "a.b-1", "aab-1"),
        (r"\Qa+", "a+", "aa"),
        ("^[[:alpha:]]+-[^[:digit:]]$", "ab-c", "ab-1"),
        ("^[]a]$", "]", "b"),
        ("^[a&&b]$", "&", "c"),
        ("(?i)RACK|ROW", "a-row", "a-cell"),
        ("^x(?i)A|B$", "b", "Xa"),
        ("^(?P<rack>r)(?<node>n)$", "rn", "r"),
        ("^(?U)a+?$", "aa", "b"),
        ("^a{2}$", "aa", "aaa"),
        ("^a{,2}$", "a{,2}", "aa"),
        (r"^\x{61}\x62$", "ab", "a"),
    ],
)
def test_what_is_found(pattern: str, found: str, not_found: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = compile_go(pattern)
    assert compiled.search(found)
    assert not compiled.search(not_found)


@pytest.mark.parametrize(
    "pattern, told",
    [
        ("(", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]"),
        ("a**", "invalid nested repetition operator **"),
        ("a++", "invalid nested repetition operator ++"),
        ("a{1001}", "invalid repeat count {1001}: at most 1000"),
        ("*a", "nothing to repeat at position 0"),
        ("(?=a)", "(?=a is Perl syntax that Go does not know"),
        ("(?<!a)b", "(?<! is Perl syntax that Go does not know"),
        ("(?P=n)", "(?P= is Perl syntax that Go does not know"),
        (r"(a)\1", r"invalid escape sequence \1"),
        (r"a\Z", r"invalid escape sequence \Z"),
        (r"\pL", r"invalid escape sequence \p"),
        ("[[:letter:]]", "invalid character class [:letter:]"),
        ("[z-a]", "bad character range z-a at position 1"),
    ],
)
def test_what_is_refused(pattern: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        compile_go(pattern)
