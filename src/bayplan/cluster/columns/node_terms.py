"""Node selector terms on label columns: which rows meet them.

Terms are alternatives, all requirements of a term must hold, and an empty term matches nothing. Pods use them as node
affinity, volumes as the nodes that can reach them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.labels import ABSENT, LabelColumns, whole_number
from bayplan.kube.wire.core_v1 import NodeSelector, NodeSelectorTerm, SelectorRequirement

Rows = slice | NDArray[np.intp]
Mask = NDArray[np.bool_]


class NodeTerms:
    """Evaluates terms for the rows of one cluster. `numbers` maps node names to rows."""

    def __init__(self, labels: LabelColumns, numbers: Mapping[str, int]) -> None:
        self._labels = labels
        self._numbers = numbers

    def matching(self, selector: NodeSelector, rows: Rows) -> Mask:
        """Return the rows that meet any term of a selector."""
        found = np.zeros(_count(rows), dtype=np.bool_)
        for term in selector.node_selector_terms or []:
            found |= self.matching_term(term, rows)
        return found

    def matching_term(self, term: NodeSelectorTerm, rows: Rows) -> Mask:
        """Return the rows that meet every requirement of a term."""
        if not term.match_expressions and not term.match_fields:
            return np.zeros(_count(rows), dtype=np.bool_)
        matches = np.ones(_count(rows), dtype=np.bool_)
        for requirement in term.match_expressions or []:
            matches &= self._holds(requirement, rows)
            if not matches.any():
                return matches
        for requirement in term.match_fields or []:
            matches &= self._field_holds(requirement, rows)
        return matches

    def has_value(self, key: str, values: Sequence[str], rows: Rows) -> Mask:
        """Return the rows whose label has one of the values."""
        codes = self._labels.codes(key)[rows]
        wanted = self._labels.codes_among(key, values)
        if len(wanted) == 1:
            return np.asarray(codes == wanted[0])
        return np.isin(codes, wanted) if wanted else np.zeros(len(codes), dtype=np.bool_)

    def has_label(self, key: str, rows: Rows) -> Mask:
        """Return the rows that have a label."""
        return np.asarray(self._labels.codes(key)[rows] != ABSENT)

    def _holds(self, requirement: SelectorRequirement, rows: Rows) -> Mask:
        key, values = requirement.key, requirement.values or []
        match requirement.operator:
            case "In":
                return self.has_value(key, values, rows)
            case "NotIn":
                return ~self.has_value(key, values, rows)
            case "Exists":
                return self.has_label(key, rows)
            case "DoesNotExist":
                return ~self.has_label(key, rows)
            case "Gt" | "Lt":
                return self._compares(key, values, rows, greater=requirement.operator == "Gt")
        # The API server rejects other operators; a file can still contain one.
        return np.zeros(_count(rows), dtype=np.bool_)

    def _compares(self, key: str, values: list[str], rows: Rows, *, greater: bool) -> Mask:
        codes = self._labels.codes(key)[rows]
        bound = whole_number(values[0]) if len(values) == 1 else None
        if bound is None:
            return np.zeros(len(codes), dtype=np.bool_)
        numbers, is_number = self._labels.whole_numbers(key)
        return np.asarray((is_number & (numbers > bound if greater else numbers < bound))[codes])

    def _field_holds(self, requirement: SelectorRequirement, rows: Rows) -> Mask:
        """`metadata.name` is the only field Kubernetes allows here."""
        matches = np.zeros(self._labels.size, dtype=np.bool_)
        if requirement.key == "metadata.name":
            for name in requirement.values or []:
                row = self._numbers.get(name)
                if row is not None:
                    matches[row] = True
            if requirement.operator == "NotIn":
                matches = ~matches
        return matches[rows]


def _count(rows: Rows) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)
