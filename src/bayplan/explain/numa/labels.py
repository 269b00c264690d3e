"""Short labels for pictures: `mem 78Gi`, `1Gi pages 24`, `sriov-vf 6`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.cluster.pods.request import HUGEPAGES_PREFIX, MEMORY
from bayplan.explain.amounts import human, usual_order
from bayplan.kube.quantity import QuantityError, parse


def short_labels(resources: Iterable[str]) -> dict[str, str]:
    """A label for each resource; devices lose their domain unless two would look alike."""
    names = list(dict.fromkeys(resources))
    last_parts = [name.rpartition("/")[2] for name in names]
    labels = {}
    for name, last in zip(names, last_parts, strict=True):
        if name == MEMORY:
            labels[name] = "mem"
        elif name.startswith(HUGEPAGES_PREFIX):
            labels[name] = f"{name.removeprefix(HUGEPAGES_PREFIX)} pages"
        else:
            labels[name] = last if last_parts.count(last) == 1 else name
    return labels


def short_amount(resource: str, amount: int) -> str:
    """Huge pages are counted as pages, everything else as usual."""
    size = _page_size(resource)
    if size and amount % size == 0:
        return str(amount // size)
    return human(resource, amount)


def short_listing(amounts: Mapping[str, int], labels: Mapping[str, str]) -> list[str]:
    """`cpu 8`, `mem 16Gi`, `1Gi pages 8`, without resources that no zone has."""
    return [
        f"{labels[resource]} {short_amount(resource, amounts[resource])}"
        for resource in usual_order(amounts)
        if amounts[resource] and resource in labels
    ]


def _page_size(resource: str) -> int:
    if not resource.startswith(HUGEPAGES_PREFIX):
        return 0
    try:
        return parse(resource.removeprefix(HUGEPAGES_PREFIX)).value()
    except QuantityError:
        return 0
