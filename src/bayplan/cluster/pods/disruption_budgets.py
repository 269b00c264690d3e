"""PodDisruptionBudgets by the pods that they cover.

Budgets come in as the cluster shows them; out comes, for a pod, the budgets that cover it and how many disruptions each
still allows.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.pods.label_selectors import EVERYTHING, AnchoredIndex, Selector, selector_of
from bayplan.cluster.pods.terms import labels_of, namespace_of
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import LabelSelector, Pod
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True, eq=False)
class _Budget:
    key: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]


class DisruptionBudgets:
    """All PodDisruptionBudgets of a cluster."""

    def __init__(self) -> None:
        self.version = 0
        """Changes whenever a budget covers other pods or allows another number of disruptions."""
        self._budgets: dict[str, _Budget] = {}
        self._by_namespace: dict[str, AnchoredIndex[_Budget]] = {}

    def set(self, written: PodDisruptionBudget) -> None:
        """Take over a budget.

        Raises `InvalidObject` if its selector is invalid; the budget then counts as unreadable.
        """
        key = f"{written.metadata.namespace or 'default'}/{written.metadata.name}"
        problem = _problem(written.spec.selector)
        if problem:
            self.set_unreadable(key)
            effect = "the budget covers every pod of the namespace and allows no disruption"
            raise InvalidObject(ObjectPath.of(written).child("spec").child("selector"), f"{problem}; {effect}")
        self.remove(key)
        status = written.status
        allowed = max(status.disruptions_allowed, 0) if status else 0
        disrupted = frozenset((status.disrupted_pods or {}) if status else ())
        self._add(_Budget(key, selector_of(written.spec.selector), allowed, disrupted))

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
        budgets = self._by_namespace.get(namespace_of(pod))
        if not budgets:
            return ()
        labels = labels_of(pod)
        return tuple(
            sorted(
                budget.key
                for budget in budgets.for_labels(labels)
                if budget.selector.matches(labels) and pod.metadata.name not in budget.disrupted
            )
        )

    def allowed(self) -> dict[str, int]:
        """How many disruptions each budget still allows."""
        return {key: budget.allowed for key, budget in self._budgets.items()}


def _problem(selector: LabelSelector | None) -> str:
    """What the API server would refuse about a selector."""
    for each in (selector.match_expressions or ()) if selector is not None else ():
        if each.operator not in OPERATORS:
            return f'operator "{each.operator}" of key "{each.key}" is unknown: expected one of {", ".join(OPERATORS)}'
        if bool(each.values) != (each.operator in OPERATORS[:2]):
            needs = "needs values" if each.operator in OPERATORS[:2] else "takes no values"
            return f'operator "{each.operator}" of key "{each.key}" {needs}'
    return ""
