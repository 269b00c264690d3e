"""Every cache of a function has a bound, and none keeps the long texts that a tenant or a node can write."""

from __future__ import annotations

import gc
import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import bayplan
from bayplan.cluster.pods.request import amount_of
from bayplan.cluster.reports.kubelet_version import version_of
from bayplan.cluster.reports.zone_reports import zone_id_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.quantity import QuantityError, parse
from bayplan.kube.topology_levels import level_meant

# Their arguments are types, resources and files of bayplan's own, never texts of objects.
OF_OUR_OWN = {
    "bayplan.cli.shared.output._yaml_dumper",
    "bayplan.dialects.registry._by_name",
    "bayplan.dialects.registry._by_struct",
    "bayplan.dialects.registry.dialects",
    "bayplan.extensions._all_entries",
    "bayplan.extensions.load",
    "bayplan.extensions.registered",
    "bayplan.kube.client.decoding.decoder_of",
    "bayplan.kube.errors.struct_fields",
    "bayplan.kube.resources.pod_groups",
    "bayplan.kube.validation.fields.field_table",
    "bayplan.kube.unread_fields._refusing",
    "bayplan.kube.yaml_text.go_loader",
}
LONG = "x" * 100_000


def caches() -> Iterator[tuple[str, Any]]:
    for module in pkgutil.walk_packages(bayplan.__path__, "bayplan."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for each in gc.get_objects():
        if type(each).__name__ == "_lru_cache_wrapper" and each.__module__.startswith("bayplan."):
            yield f"{each.__module__}.{each.__qualname__}", each


def test_a_cache_without_a_bound_is_about_our_own_code() -> None:
    unbounded = {name for name, cache in caches() if cache.cache_info().maxsize is None}
    assert unbounded <= OF_OUR_OWN, "bound it with lru_cache(maxsize=...), or say here that no object reaches it"


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(lambda text: amount_of(text, "1"), id="resource name"),
        pytest.param(lambda text: amount_of("cpu", text), id="amount"),
        pytest.param(parse, id="quantity"),
        pytest.param(version_of, id="kubelet version"),
        pytest.param(zone_id_of, id="zone name"),
        pytest.param(lambda text: level_meant(text, ["example.com/rack"]), id="level"),
    ],
)
def test_long_texts_are_not_kept(asked: Any) -> None:
    known = {name: cache.cache_info().currsize for name, cache in caches()}
    for number in range(3):
        with suppress(QuantityError, InvalidObject, ValueError):
            asked(f"{LONG}{number}")
    kept = sum(cache.cache_info().currsize - known.get(name, 0) for name, cache in caches())
    assert kept <= 1, "three long texts take at most one place: of what is left when they are cut"
