"""Go's regular expressions on Python's: what both read alike, what only Go knows, and what Go refuses."""

from __future__ import annotations

import re
import warnings

import pytest

from bayplan.kube.go_regexp import GoPattern


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
        (r"\bgpu\b", "rack-gpu-1", "rack-gpus-1"),
        (r"\Bgpu", "xgpu", "gpu"),
        ("^(a*)*b$", "aab", "aac"),
        ("^a{2,3}$", "aaa", "aaaa"),
        ("^(ab){2,}$", "ababab", "ab"),
        ("^(?:|a)$", "a", "b"),
        ("", "anything", None),
    ],
)
def test_what_is_found(pattern: str, found: str, not_found: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = GoPattern(pattern)
        assert compiled.found_in(found)
        assert not_found is None or not compiled.found_in(not_found)


@pytest.mark.parametrize(
    "pattern, told",
    [
        ("(", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]"),
        ("a**", "invalid nested repetition operator **"),
        ("a++", "invalid nested repetition operator ++"),
        ("a{1001}", "invalid repeat count {1001}"),
        ("a{3,2}", "invalid repeat count {3,2}"),
        ("((a{99}){99}){99}", "expression too large"),
        ("a|*", "missing argument to repetition operator *"),
        ("(?=a)", "(?=a is Perl syntax that Go does not know"),
        ("(?<!a)b", "(?<! is Perl syntax that Go does not know"),
        ("(?P=n)", "(?P= is Perl syntax that Go does not know"),
        (r"(a)\1", r"invalid escape sequence \1"),
        (r"a\Z", r"invalid escape sequence \Z"),
        (r"\pL", r"invalid escape sequence \p"),
        ("[[:letter:]]", "invalid character class [:letter:]"),
        ("[z-a]", "bad character range z-a"),
    ],
)
def test_what_is_refused(pattern: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        GoPattern(pattern)


def test_time_does_not_grow_beyond_the_length_of_a_name() -> None:
    """Where a search that tries one way after the other would try 2^60 of them."""
    assert not GoPattern("^([a-z0-9]+-?)+$").found_in(f"{'gke-cluster-pool-' * 4}.internal")


@pytest.mark.parametrize(
    "pattern, prefix",
    [
        ("^gpu-12-", "gpu-12-"),
        ("^gpu-[0-9]+$", "gpu-"),
        (r"^n\.1?", "n."),
        ("^((^ab))", ""),
        ("^gpu|^cpu", ""),
        ("(?i)^gpu", ""),
        ("gpu", ""),
    ],
)
def test_what_names_begin_with(pattern: str, prefix: str) -> None:
    assert GoPattern(pattern).prefix == prefix
