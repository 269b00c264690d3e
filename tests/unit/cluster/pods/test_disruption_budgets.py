"""Which budgets cover a pod, and when the eviction API would refuse it whatever they allow."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.cluster.pods.disruption_budgets import DisruptionBudgets
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import PodStatus
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget
from tests.builders.neighbourhoods import app_pod

WEB = {"matchLabels": {"app": "web"}}


def budget(name: str, selector: Any, disrupted: tuple[str, ...] = ()) -> PodDisruptionBudget:
    status = {"disruptionsAllowed": 1, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")}
    metadata = {"name": name, "namespace": "default"}
    written = {"metadata": metadata, "spec": {"selector": selector}, "status": status}
    return msgspec.convert(written, PodDisruptionBudget)


@pytest.mark.parametrize(
    "selectors, phase, several",
    [
        ((), "Running", ()),
        ((WEB,), "Running", ()),
        ((WEB, WEB), "Running", ("default/b0", "default/b1")),
        ((WEB, {}), "Running", ("default/b0", "default/b1")),
        ((WEB, {"matchLabels": {"app": "db"}}), "Running", ()),
        ((WEB, None), "Running", ()),
        ((WEB, WEB), "Pending", ()),
    ],
)
def test_the_eviction_api_refuses_pods_under_several_budgets(
    selectors: tuple[Any, ...], phase: str, several: tuple[str, ...]
) -> None:
    budgets = DisruptionBudgets()
    for number, selector in enumerate(selectors):
        budgets.set(budget(f"b{number}", selector))
    pod = msgspec.structs.replace(app_pod("web-0", "web"), status=PodStatus(phase=phase))
    assert budgets.too_many(pod) == several


def test_a_pod_that_is_disrupted_already_is_still_under_several_budgets() -> None:
    budgets = DisruptionBudgets()
    for name in ("a", "b"):
        budgets.set(budget(name, WEB, disrupted=("web-0",)))
    pod = app_pod("web-0", "web")
    assert (budgets.covering(pod), budgets.too_many(pod)) == ((), ("default/a", "default/b"))


@pytest.mark.parametrize(
    "generation, observed, allowed, outdated",
    [(2, 2, 1, ()), (2, 1, 0, ("default/web",)), (1, None, 0, ("default/web",)), (None, None, 1, ())],
)
def test_a_budget_allows_nothing_while_its_status_is_older_than_its_spec(
    generation: int | None, observed: int | None, allowed: int, outdated: tuple[str, ...]
) -> None:
    written = msgspec.to_builtins(budget("web", WEB))
    written["metadata"] |= {} if generation is None else {"generation": generation}
    written["status"] |= {} if observed is None else {"observedGeneration": observed}
    budgets = DisruptionBudgets()
    budgets.set(msgspec.convert(written, PodDisruptionBudget))
    assert (budgets.allowed(), budgets.outdated()) == ({"default/web": allowed}, outdated)


@pytest.mark.parametrize(
    "selector, problem",
    [
        ({"matchExpressions": [{"key": "app", "operator": "Is", "values": ["a"]}]}, 'operator "Is" of key "app" is'),
        ({"matchExpressions": [{"key": "app", "operator": "In"}]}, 'operator "In" of key "app" needs values'),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a b"]}]}, 'value "a b" of key "app" '),
        ({"matchExpressions": [{"key": "a/b/c", "operator": "DoesNotExist"}]}, 'key "a/b/c" must'),
        ({"matchLabels": {"app": "a b"}}, 'value "a b" of key "app" must'),
    ],
)
def test_a_budget_whose_selector_cannot_be_evaluated_covers_no_pod(selector: Any, problem: str) -> None:
    budgets = DisruptionBudgets()
    with pytest.raises(InvalidObject) as said:
        budgets.set(budget("odd", selector))
    assert problem in str(said.value)
    assert str(said.value).endswith("the budget covers no pod, as in the eviction API")
    assert budgets.covering(app_pod("web-0", "web")) == ()
