"""Patterns that Go and Python read alike are found in the same names."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from bayplan.kube.go_regexp import GoPattern

SINGLES = ["a", "b", "-", ".", r"\.", "[ab]", "[^a]", "[a-b.]", r"\w", r"\W", "^", "$", r"\b", r"\B"]
PATTERNS = st.recursive(
    st.sampled_from(SINGLES),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda ways: f"(?:{'|'.join(ways)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)
# Short: Python tries one way after the other.
NAMES = st.text("ab-.", min_size=1, max_size=7)


@given(PATTERNS, NAMES)
def test_a_pattern_is_found_where_python_finds_it(pattern: str, name: str) -> None:
    compiled = GoPattern(pattern)
    assert compiled.found_in(name) == bool(re.search(pattern, name))
    assert name.startswith(compiled.prefix) or not compiled.found_in(name)
