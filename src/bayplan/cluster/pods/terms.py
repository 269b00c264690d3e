"""What a pod says about other pods: its affinity terms and spread constraints, as values that are compared and kept.

The input is a checked wire pod (`cluster/pods/checks.py`), the output its `PodTerms`. Placed pods hold their terms
against newcomers (`cluster/pods/neighbours.py`); `plugins/inter_pod_affinity.py` and `plugins/pod_topology_spread.py`
judge the newcomer's own terms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bayplan.cluster.pods.checks import check_neighbours
from bayplan.cluster.pods.label_selectors import Label, Labels, Requirement, Selector, selector_of
from bayplan.kube.wire.core_v1 import Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint

DEFAULT_NAMESPACE = "default"
NO_LABELS: Labels = {}


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods by namespace (named, or selected by the namespace's labels) and by their own labels."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """True if a pod is meant."""
        here = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return here and self.selector.matches(labels)

    def anchors(self) -> tuple[Label, ...] | None:
        """Labels of which a pod that is meant has one; None if there is no such list."""
        return self.selector.anchors()

    def label_keys(self) -> set[str]:
        """The labels of a pod that say whether it is meant."""
        return {each.key for each in self.selector.requirements or ()}


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Some pods, and the node label that says which nodes count as the same place."""

    pods: PodSelector
    topology_key: str


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """One spread constraint. `pods` are those that are counted, in the pod's own namespace."""

    max_skew: int
    topology_key: str
    required: bool
    pods: PodSelector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    needs_label: bool = True
    """False if nodes without the label count as one more place, as for kube-scheduler's default constraints."""


@dataclass(frozen=True, slots=True)
class PodTerms:
    """Everything one pod says about others. A preference with a negative weight is anti-affinity."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[PodTerm, int], ...] = ()
    spread: tuple[SpreadRule, ...] = ()


NO_TERMS = PodTerms()


def namespace_of(pod: Pod) -> str:
    """The pod's namespace; a pod from a file may name none."""
    return pod.metadata.namespace or DEFAULT_NAMESPACE


def labels_of(pod: Pod) -> Labels:
    """The pod's own labels."""
    return pod.metadata.labels or NO_LABELS


def has_terms(pod: Pod) -> bool:
    """True if a pod says anything about others."""
    affinity = pod.spec.affinity
    about_pods = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return bool(about_pods or pod.spec.topology_spread_constraints)


def label_keys_of(pod: Pod) -> list[str]:
    """The keys under which a pod's terms refer to its own labels."""
    terms: list[PodAffinityTerm | TopologySpreadConstraint] = [*(pod.spec.topology_spread_constraints or ())]
    affinity = pod.spec.affinity
    for each in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        if each is not None:
            wishes = each.preferred_during_scheduling_ignored_during_execution or ()
            terms += [
                *(each.required_during_scheduling_ignored_during_execution or ()),
                *(wish.pod_affinity_term for wish in wishes),
            ]
    found = [key for term in terms for key in term.match_label_keys or ()]
    found += [key for term in terms if isinstance(term, PodAffinityTerm) for key in term.mismatch_label_keys or ()]
    return found


def terms_of(pod: Pod) -> PodTerms:
    """Read a pod's terms; raises `InvalidObject` for what no API server would accept."""
    if not has_terms(pod):
        return NO_TERMS
    check_neighbours(pod)
    affinity = pod.spec.affinity
    near = (affinity.pod_affinity if affinity else None) or PodAffinity()
    apart = (affinity.pod_anti_affinity if affinity else None) or PodAffinity()
    return PodTerms(
        affinity=_required(near, pod),
        anti_affinity=_required(apart, pod),
        preferred=(*_preferred(near, pod, 1), *_preferred(apart, pod, -1)),
        spread=tuple(_spread_rule(each, pod) for each in pod.spec.topology_spread_constraints or ()),
    )


def _required(written: PodAffinity, pod: Pod) -> tuple[PodTerm, ...]:
    return tuple(_term(each, pod) for each in written.required_during_scheduling_ignored_during_execution or ())


def _preferred(written: PodAffinity, pod: Pod, sign: int) -> tuple[tuple[PodTerm, int], ...]:
    wishes = written.preferred_during_scheduling_ignored_during_execution or ()
    return tuple((_term(each.pod_affinity_term, pod), sign * each.weight) for each in wishes)


def _term(written: PodAffinityTerm, pod: Pod) -> PodTerm:
    """The API server merges `matchLabelKeys` into the selector when it admits a pod.

    Pods in files need it done here.
    """
    selector = selector_of(written.label_selector).narrowed(
        (
            *_like(pod, written.match_label_keys or (), "In"),
            *_like(pod, written.mismatch_label_keys or (), "NotIn"),
        )
    )
    own = () if written.namespaces or written.namespace_selector is not None else (namespace_of(pod),)
    namespaces = frozenset((*(written.namespaces or ()), *own))
    return PodTerm(PodSelector(namespaces, selector_of(written.namespace_selector), selector), written.topology_key)


def _spread_rule(written: TopologySpreadConstraint, pod: Pod) -> SpreadRule:
    selector = selector_of(written.label_selector).narrowed(_like(pod, written.match_label_keys or (), "In"))
    return SpreadRule(
        max_skew=written.max_skew,
        topology_key=written.topology_key,
        required=written.when_unsatisfiable == "DoNotSchedule",
        pods=PodSelector(frozenset((namespace_of(pod),)), selector_of(None), selector),
        min_domains=1 if written.min_domains is None else written.min_domains,
        honors_affinity=written.node_affinity_policy != "Ignore",
        honors_taints=written.node_taints_policy == "Honor",
    )


def _like(pod: Pod, keys: Iterable[str], operator: str) -> list[Requirement]:
    """The pod's own values of some labels, as requirements; a label that it does not have demands nothing."""
    labels = labels_of(pod)
    return [Requirement(key, operator, (labels[key],)) for key in keys if key in labels]
