"""Volcano's decision about a pod, read back from its annotation as Volcano's own node agent would."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.kube.json_text import decode
from bayplan.kube.quantity import QuantityError, parse
from bayplan.kube.volcano_annotations import DECISION

AmountsByNuma = dict[int, dict[str, str]]
"""NUMA id to resource to quantity, in canonical text."""


class _Decision(msgspec.Struct, frozen=True):
    numa: dict[int, dict[str, str | int | float]] | None = None


def decision_in(annotations: Mapping[str, str] | None) -> AmountsByNuma:
    """What was decided for a pod; empty if the annotation is missing or unreadable."""
    try:
        decided = decode((annotations or {}).get(DECISION, "{}"), _Decision).numa or {}
        return {numa: {name: str(parse(text)) for name, text in amounts.items()} for numa, amounts in decided.items()}
    except (msgspec.DecodeError, QuantityError):
        return {}
