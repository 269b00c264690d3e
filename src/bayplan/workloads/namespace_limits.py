"""LimitRanges and ResourceQuotas: what the API server's admission would do to a new pod.

In come the objects of the namespaces and one new pod after another, out go the pod with the defaults of its namespace
and, in the API server's words, why it would be refused. Pods that are admitted count for the next ones. Pods that exist
are judged by nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from bayplan.cluster.pods.label_selectors import Requirement
from bayplan.cluster.pods.request import CPU, HUGEPAGES_PREFIX, MEMORY, QoS, effective_request, is_memory
from bayplan.cluster.pods.request import sidecar_aware_sum as at_once
from bayplan.kube.quantity import NANO, Format, Quantity, QuantityError, parse
from bayplan.kube.wire.core_v1 import (
    Container,
    LimitRange,
    LimitRangeItem,
    Pod,
    Quantities,
    ResourceQuota,
    ResourceRequirements,
    ScopeRequirement,
)

Amounts = Mapping[str, Quantity]

_STORAGE = "ephemeral-storage"
_ONE = Quantity(NANO)
# A quota of these wants every container to say how much.
_MUST_BE_SAID = tuple(f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in (CPU, MEMORY))
_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass")


class NamespaceLimits:
    """The LimitRanges and ResourceQuotas of some namespaces; `remarks` has those that cannot be judged by."""

    def __init__(self, ranges: Iterable[LimitRange], quotas: Iterable[ResourceQuota]) -> None:
        self.remarks: list[str] = []
        self._items: dict[str, list[LimitRangeItem]] = {}
        self._quotas: dict[str, list[_Quota]] = {}
        for limit_range in sorted(ranges, key=lambda each: each.metadata.name):
            items = limit_range.spec.limits or []
            if self._is_usable(limit_range, [amounts for item in items for amounts in _amounts_in(item)]):
                self._items.setdefault(limit_range.metadata.namespace or "default", []).extend(items)
        for quota in sorted(quotas, key=lambda each: each.metadata.name):
            if self._is_usable(quota, [quota.status.hard, quota.status.used]) and self._is_known(quota):
                self._quotas.setdefault(quota.metadata.namespace or "default", []).append(_Quota(quota))

    def with_defaults(self, pod: Pod) -> Pod:
        """The pod with the requests and limits that its namespace gives to containers without any."""
        for item in self._items.get(pod.metadata.namespace or "default", ()):
            if item.type == "Container":
                spec = structs.replace(
                    pod.spec,
                    containers=[_filled(each, item) for each in pod.spec.containers or ()],
                    init_containers=[_filled(each, item) for each in pod.spec.init_containers or ()],
                )
                pod = structs.replace(pod, spec=spec)
        return pod

    def refusal(self, pod: Pod) -> str:
        """Why the API server would refuse a new pod; if it would not, the pod is counted."""
        namespace = pod.metadata.namespace or "default"
        for item in self._items.get(namespace, ()):
            if faults := list(_faults(item, pod)):
                return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        covering = [quota for quota in self._quotas.get(namespace, ()) if quota.covers(pod)]
        usage = _usage(pod) if covering else {}
        refusal = next(filter(None, (quota.refusal(pod, usage) for quota in covering)), "")
        for quota in covering if not refusal else ():
            quota.count(usage)
        return refusal

    def _is_usable(self, thing: LimitRange | ResourceQuota, written: Iterable[Quantities | None]) -> bool:
        try:
            for amounts in written:
                _parsed(amounts)
        except QuantityError as error:
            self._remark(thing, str(error))
            return False
        return True

    def _is_known(self, quota: ResourceQuota) -> bool:
        unknown = [each.scope_name for each in _scopes(quota) if each.scope_name not in _SCOPES]
        judged_by = quota.status.hard or {}
        missing = {*(quota.spec.hard or ()), *judged_by} - (judged_by.keys() & (quota.status.used or {}).keys())
        if unknown:
            self._remark(quota, f'scope "{unknown[0]}" is not judged')
        elif missing:
            self._remark(quota, f"its status has no {', '.join(sorted(missing))} yet")
        return not unknown and not missing

    def _remark(self, thing: LimitRange | ResourceQuota, why: str) -> None:
        name = f"{thing.metadata.namespace or 'default'}/{thing.metadata.name}"
        self.remarks.append(f"{type(thing).__name__} {name}: {why}: it is not counted")


class _Quota:
    """A quota and what is used of it by now."""

    def __init__(self, written: ResourceQuota) -> None:
        self._name = written.metadata.name
        self._scopes = list(_scopes(written))
        self._hard = _parsed(written.status.hard)
        self._used = _parsed(written.status.used)

    def covers(self, pod: Pod) -> bool:
        """Whether a pod counts."""
        return all(_in_scope(scope, pod) for scope in self._scopes)

    def refusal(self, pod: Pod, usage: Amounts) -> str:
        """Why there is no room for a pod; empty if there is."""
        unsaid = []
        for name in sorted(name for name in self._hard if name in _MUST_BE_SAID):
            silent = [each.name for each in _containers(pod) if not _says(each, name)]
            if silent and pod.spec.resources is None:
                unsaid.append(f"{name} for: {','.join(silent)}")
        if unsaid:
            return f"failed quota: {self._name}: must specify {'; '.join(unsaid)}"
        over = [name for name in sorted(self._counted(usage)) if self._used[name] + usage[name] > self._hard[name]]
        if not over:
            return ""
        asked, used, most = (_listed(each, over) for each in (usage, self._used, self._hard))
        return f"exceeded quota: {self._name}, requested: {asked}, used: {used}, limited: {most}"

    def count(self, usage: Amounts) -> None:
        """Count a pod that is admitted."""
        self._used = {**self._used, **{name: self._used[name] + usage[name] for name in self._counted(usage)}}

    def _counted(self, usage: Amounts) -> Iterator[str]:
        return (name for name in usage if name in self._hard)


def _scopes(quota: ResourceQuota) -> Iterator[ScopeRequirement]:
    for name in quota.spec.scopes or ():
        yield ScopeRequirement(scope_name=name, operator="Exists")
    if quota.spec.scope_selector is not None:
        yield from quota.spec.scope_selector.match_expressions or ()


def _in_scope(scope: ScopeRequirement, pod: Pod) -> bool:
    match scope.scope_name:
        case "Terminating" | "NotTerminating":
            return (pod.spec.active_deadline_seconds is not None) is (scope.scope_name == "Terminating")
        case "BestEffort" | "NotBestEffort":
            is_best_effort = effective_request(pod).qos is QoS.BEST_EFFORT
            return is_best_effort is (scope.scope_name == "BestEffort")
    name, required = pod.spec.priority_class_name, Requirement("name", scope.operator, tuple(scope.values or ()))
    return required.holds({"name": name} if name else {})


def _usage(pod: Pod) -> dict[str, Quantity]:
    """What a pod uses, by the names that quotas have for it."""
    usage = {"pods": _ONE, "count/pods": _ONE}
    requests, limits = _totals(pod)
    for name, amount in requests.items():
        usage[f"requests.{name}"] = amount
        if name in (CPU, MEMORY, _STORAGE) or name.startswith(HUGEPAGES_PREFIX):
            usage[name] = amount
    return usage | {f"limits.{name}": amount for name, amount in limits.items() if name in (CPU, MEMORY, _STORAGE)}


def _totals(pod: Pod) -> tuple[Amounts, Amounts]:
    """Requests and limits of a pod as a whole."""
    asked = effective_request(pod)
    limits = at_once(asked.containers, of_limits=True)
    limits = {name: amount + asked.overhead.get(name, 0) for name, amount in limits.items()}
    return _quantities(asked.total), _quantities(limits)


def _quantities(amounts: Mapping[str, int]) -> Amounts:
    return {name: _quantity(name, amount) for name, amount in amounts.items()}


def _quantity(name: str, amount: int) -> Quantity:
    if name == CPU:
        return Quantity(amount * (NANO // 1000))
    return Quantity(amount * NANO, Format.BINARY_SI if is_memory(name) or name == _STORAGE else Format.DECIMAL_SI)


def _containers(pod: Pod) -> list[Container]:
    return [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]


def _written(container: Container) -> tuple[Amounts, Amounts]:
    """Requests and limits of a container; what has a limit and no request requests its limit."""
    written = container.resources or ResourceRequirements()
    limits = _parsed(written.limits)
    return {**limits, **_parsed(written.requests)}, limits


def _says(container: Container, name: str) -> bool:
    requests, limits = _written(container)
    if name.startswith("limits."):
        return name.removeprefix("limits.") in limits
    return name.removeprefix("requests.") in requests


def _filled(container: Container, item: LimitRangeItem) -> Container:
    """A container with an item's defaults: a maximum is a default limit, a minimum a default request."""
    written = container.resources or ResourceRequirements()
    default = {**(item.max or {}), **(item.default or {})}
    requested = {**(item.min or {}), **default, **(item.default_request or {})}
    limits = written.limits or {}
    resources = ResourceRequirements(
        requests={**requested, **limits, **(written.requests or {})}, limits={**default, **limits}
    )
    return structs.replace(container, resources=resources)


def _faults(item: LimitRangeItem, pod: Pod) -> Iterator[str]:
    """What an item says against a pod that has its defaults."""
    if item.type == "Pod":
        yield from _amount_faults(item, *_totals(pod))
    for container in _containers(pod) if item.type == "Container" else ():
        requests, limits = _written(container)
        yield from _amount_faults(item, requests, limits)
        for name in sorted(set(requests) & set(_parsed(item.default)) & set(limits)):
            if requests[name] > limits[name]:
                most = f"must be less than or equal to {name} limit of {limits[name]}"
                yield f'container {container.name}: Invalid value: "{requests[name]}": {most}'


def _amount_faults(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    of = f"per {item.type}"
    for name, least in sorted(_parsed(item.min).items()):
        if name not in requests:
            yield f"minimum {name} usage {of} is {least}.  No request is specified"
        elif requests[name] < least:
            yield f"minimum {name} usage {of} is {least}, but request is {requests[name]}"
    for name, most in sorted(_parsed(item.max).items()):
        if name not in limits:
            yield f"maximum {name} usage {of} is {most}.  No limit is specified"
        elif limits[name] > most:
            yield f"maximum {name} usage {of} is {most}, but limit is {limits[name]}"
    for name, most in sorted(_parsed(item.max_limit_request_ratio).items()):
        yield from _ratio_faults(
            f"{name} max limit to request ratio {of} is {most}", most, requests.get(name), limits.get(name)
        )


def _ratio_faults(rule: str, most: Quantity, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    if request is None or request.is_zero:
        yield f"{rule}, but no request is specified or request is 0"
    elif limit is None or limit.is_zero:
        yield f"{rule}, but no limit is specified or limit is 0"
    elif limit.nano * NANO > request.nano * most.nano:
        yield f"{rule}, but provided ratio is {limit.nano / request.nano:f}"


def _amounts_in(item: LimitRangeItem) -> tuple[Quantities | None, ...]:
    return item.max, item.min, item.default, item.default_request, item.max_limit_request_ratio


def _parsed(written: Quantities | None) -> Amounts:
    return {name: parse(text) for name, text in (written or {}).items()}


def _listed(amounts: Amounts, names: Sequence[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names)
