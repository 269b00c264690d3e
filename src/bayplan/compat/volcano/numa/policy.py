"""Volcano's merge of hints and what each policy admits: the kubelet's rules of 2021.

Every combination of one hint per resource is tried; its zones are what all of them have in common, and it is preferred if each of them
is. Today's kubelet also demands that they name the same zones (`engine/kubelet/merge.py`), which with one resource makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from bayplan.engine.kubelet.masks import mask_of
from bayplan.engine.kubelet.merge import IMPOSSIBLE, NO_PREFERENCE, Hint, ProviderHints

BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE = "best-effort", "restricted", "single-numa-node"
ALIGNING_POLICIES = (BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)
"""Any other text is a policy that aligns nothing, also one that nobody knows."""


def judge(policy: str, numa_ids: Sequence[int], providers: Iterable[ProviderHints]) -> tuple[Hint, bool]:
    """The merged hint under a node's policy, and whether the policy admits it."""
    if policy not in ALIGNING_POLICIES:
        return Hint(None, preferred=False), True
    lists = _one_list_per_resource(providers)
    if policy == SINGLE_NUMA_NODE:
        lists = [
            [hint for hint in hints if hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)]
            for hints in lists
        ]
    merged = _merged(mask_of(numa_ids), lists)
    return merged, merged.preferred or policy == BEST_EFFORT


def _one_list_per_resource(providers: Iterable[ProviderHints]) -> list[Sequence[Hint]]:
    lists: list[Sequence[Hint]] = []
    for provider in providers:
        if not provider:
            lists.append((NO_PREFERENCE,))
        lists += [(NO_PREFERENCE,) if hints is None else hints or (IMPOSSIBLE,) for hints in (provider or {}).values()]
    return lists


def _merged(everywhere: int, lists: Sequence[Sequence[Hint]]) -> Hint:
    best = Hint(everywhere, preferred=False)
    for combination in product(*lists):
        mask = everywhere
        for hint in combination:
            mask &= everywhere if hint.mask is None else hint.mask
        merged = Hint(mask, preferred=all(hint.preferred for hint in combination))
        if mask and _order(merged) < _order(best):
            best = merged
    return best


def _order(hint: Hint) -> tuple[bool, int, int]:
    """Preferred first, then narrow, then the lowest zones."""
    mask = hint.mask or 0
    return not hint.preferred, mask.bit_count(), mask
