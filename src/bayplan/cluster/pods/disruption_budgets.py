"""PodDisruptionBudgets by the pods that they cover.

Budgets come in as the cluster shows them; out comes, for a pod, the budgets that cover it and how many disruptions each
still allows.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.pods.label_selectors import EVERYTHING, AnchoredIndex, Selector, selector_of
from bayplan.cluster.pods.terms import labels_of, namespace_of
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation.names import label_value, qualified_name
from bayplan.kube.wire.core_v1 import LabelSelector, Pod
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetStatus

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
PENDING = "Pending"


@dataclass(frozen=True, slots=True, eq=False)
class _Budget:
    key: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    is_outdated: bool = False


class DisruptionBudgets:
    """All PodDisruptionBudgets of a cluster."""

    def __init__(self) -> None:
        self.version = 0
        """Changes whenever a budget covers other pods or allows another number of disruptions."""
        self._budgets: dict[str, _Budget] = {}
        self._by_namespace: dict[str, AnchoredIndex[_Budget]] = {}

    def set(self, written: PodDisruptionBudget) -> None:
        """Take over a budget. It allows nothing while its status is older than its spec, as in the eviction API.

        Raises `InvalidObject` if its selector is invalid; the budget then covers no pod, as in the eviction API.
        """
        key = f"{written.metadata.namespace or 'default'}/{written.metadata.name}"
        problem = _problem(written.spec.selector)
        if problem:
            self.remove(key)
            effect = "the budget covers no pod, as in the eviction API"
            raise InvalidObject(ObjectPath.of(written).child("spec").child("selector"), f"{problem}; {effect}")
        self.remove(key)
        status = written.status or PodDisruptionBudgetStatus()
        is_outdated = written.metadata.generation > status.observed_generation
        allowed = 0 if is_outdated else max(status.disruptions_allowed, 0)
        disrupted = frozenset(status.disrupted_pods or {})
        self._add(_Budget(key, selector_of(written.spec.selector), allowed, disrupted, is_outdated))

    def set_unreadable(self, key: str) -> None:
        """A budget cannot be read: it covers every pod of its namespace and allows no disruption."""
        self.remove(key)
        self._add(_Budget(key, EVERYTHING, 0, frozenset()))

    def _add(self, budget: _Budget) -> None:
        self._budgets[budget.key] = budget
        namespace = budget.key.partition("/")[0]
        self._by_namespace.setdefault(namespace, AnchoredIndex()).add(budget, budget.selector.anchors())
        self.version += 1

    def remove(self, key: str) -> None:
        """A budget is gone."""
        budget = self._budgets.pop(key, None)
        if budget is not None:
            self._by_namespace[key.partition("/")[0]].discard(budget, budget.selector.anchors())
            self.version += 1

    def covering(self, pod: Pod) -> tuple[str, ...]:
        """The budgets that an eviction of a pod counts against.

        A pod that is being disrupted already counts against none.
        """
        return tuple(each.key for each in self._matching(pod) if pod.metadata.name not in each.disrupted)

    def too_many(self, pod: Pod) -> tuple[str, ...]:
        """The budgets of a pod that several budgets cover, so that the eviction API refuses to evict it.

        Empty for others, and for pods that have not started: the eviction API looks at no budget for them.
        """
        found = self._matching(pod)
        has_started = pod.status is None or pod.status.phase != PENDING
        return tuple(each.key for each in found) if len(found) > 1 and has_started else ()

    def _matching(self, pod: Pod) -> list[_Budget]:
        budgets = self._by_namespace.get(namespace_of(pod))
        if not budgets:
            return []
        labels = labels_of(pod)
        found = (each for each in budgets.for_labels(labels) if each.selector.matches(labels))
        return sorted(found, key=lambda each: each.key)

    def outdated(self) -> tuple[str, ...]:
        """The budgets whose status is older than their spec."""
        return tuple(sorted(key for key, budget in self._budgets.items() if budget.is_outdated))

    def allowed(self) -> dict[str, int]:
        """How many disruptions each budget still allows."""
        return {key: budget.allowed for key, budget in self._budgets.items()}


def _problem(selector: LabelSelector | None) -> str:
    """Why the API server would not evaluate a selector."""
    written = (selector.match_labels or {}) if selector is not None else {}
    for key, value in written.items():
        wrong = [f'key "{key}" {why}' for why in qualified_name(key)]
        wrong += [f'value "{value}" of key "{key}" {why}' for why in label_value(value)]
        if wrong:
            return wrong[0]
    for each in (selector.match_expressions or ()) if selector is not None else ():
        if each.operator not in OPERATORS:
            return f'operator "{each.operator}" of key "{each.key}" is unknown: expected one of {", ".join(OPERATORS)}'
        if bool(each.values) != (each.operator in OPERATORS[:2]):
            needs = "needs values" if each.operator in OPERATORS[:2] else "takes no values"
            return f'operator "{each.operator}" of key "{each.key}" {needs}'
        wrong = [f'key "{each.key}" {why}' for why in qualified_name(each.key)]
        wrong += [
            f'value "{value}" of key "{each.key}" {why}' for value in each.values or () for why in label_value(value)
        ]
        if wrong:
            return wrong[0]
    return ""
