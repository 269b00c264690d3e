"""Names that a viewer must not read, out of a document: pods of hidden namespaces become `hidden/pod-1`.

Amounts stay, so that totals add up. Every word of every text is checked, wherever it stands, so a new field of a
document is redacted as well. Search results from hidden namespaces are dropped: even their number would tell.
"""

from __future__ import annotations

import re
from typing import Any

from bayplan.services.web.answers import Document, Names

HIDDEN = "hidden"
# A name, or `namespace/name`, as Kubernetes spells them; further parts are those of resources and labels.
_WORD = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*(?:/[A-Za-z0-9][-A-Za-z0-9_.]*)*")
# Of an object in a hidden namespace these would tell more than its amounts.
_DETAILS: Document = {"containers": [], "owner": None, "group": None, "priorityClassName": None}
# Why pods wait can be in the words of their tenant: values of annotations, names of gates and claims.
_CAUSE = "in a namespace that you must not read"


def redacted(document: Document, names: Names, visible: frozenset[str] | None) -> Document:
    """The document as a viewer may see it, who may read the namespaces `visible` (None: all)."""
    if visible is None:
        return document
    cleaned: Document = _Redaction(names, visible).cleaned(document)
    return cleaned


class _Redaction:
    """Numbers hidden objects in the order in which a document names them."""

    def __init__(self, names: Names, visible: frozenset[str]) -> None:
        self._names = names
        self._visible = visible
        self._numbers: dict[str, int] = {}

    def cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return _WORD.sub(lambda match: self._word(match.group()), value)
        if isinstance(value, list):
            if all(type(each) is int for each in value):
                return value  # the columns of a map
            return [self.cleaned(each) for each in value if not self._is_hidden_result(each)]
        if isinstance(value, dict):
            found = {self._key(key): self.cleaned(each) for key, each in value.items()}
            own = found.get("pod")
            if isinstance(own, str) and own != value["pod"]:
                found |= {key: empty for key, empty in _DETAILS.items() if key in found}
            if "cause" in found and self._are_hidden(value.get("pods")):
                found["cause"] = _CAUSE
            return found
        return value

    def _are_hidden(self, pods: object) -> bool:
        """Whether no pod of a list is the viewer's to read."""
        if not isinstance(pods, list) or not pods or not all(isinstance(each, str) for each in pods):
            return False
        return not any(each.partition("/")[0] in self._visible for each in pods)

    def _key(self, key: str) -> str:
        """A key that names a pod. All others are words of the document, whatever pods are called."""
        return self._word(key) if key.partition("/")[0] in self._names.namespaces and "/" in key else key

    def _is_hidden_result(self, value: Any) -> bool:
        """A search result names its namespace in a field of its own."""
        namespace = value.get("namespace") if isinstance(value, dict) else None
        return bool(namespace) and namespace not in self._visible

    def _word(self, word: str) -> str:
        bare = word.rstrip(".")
        namespace, slash, name = bare.partition("/")
        if slash and namespace in self._names.namespaces and namespace not in self._visible:
            return f"{HIDDEN}/pod-{self._number(f'{namespace}/{name}')}"
        if slash:
            # `pod/NAME`, `Job ml/train`: whatever the last part names, if only hidden namespaces have it.
            last = bare.rpartition("/")[2]
            return word if not self._only_hidden(last) else f"{HIDDEN}-{self._number(last)}"
        if bare in self._names.namespaces and bare not in self._visible:
            return HIDDEN
        return f"{HIDDEN}-{self._number(bare)}" if self._only_hidden(bare) else word

    def _only_hidden(self, name: str) -> bool:
        owners = None if name in self._names.nodes else self._names.by_name.get(name)
        return owners is not None and not owners & self._visible

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers) + 1)
