"""Requests and limits, of containers and of whole pods: names, amounts, and how the two belong together.

In comes `resources` as it was written; the API server fills in requests from limits before it checks, and so do these
rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from bayplan.kube.errors import InvalidObject, ObjectPath, did_you_mean
from bayplan.kube.quantity import Quantity, QuantityError, parse
from bayplan.kube.validation import names
from bayplan.kube.validation.rules import Faults, Json, amount, entries, missing, named, part, text, twice

HUGE_PAGES = "hugepages-"
CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
POD_RESOURCES = ("cpu", "memory")
_BYTES = ("memory", "ephemeral-storage")
_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."
_MILLI = 1000
_UNIT = 10**9

Amounts = dict[str, Quantity]


def amounts(resources: Json | None, field: str) -> Amounts:
    """The quantities of `requests` or `limits`, whose text is known to be right.

    Rounded up to thousandths as the API server does.
    """
    return {name: _rounded(value) for name, value in ((resources or {}).get(field) or {}).items()}


def _rounded(value: Any) -> Quantity:
    quantity = amount(value)
    thousandth = _UNIT // _MILLI
    return quantity if quantity.nano % thousandth == 0 else Quantity(quantity.milli() * thousandth, quantity.format)


def container_faults(container: Json, claims: Collection[str], at: ObjectPath) -> Faults:
    """The resources of a container; `at` is its place."""
    resources, at = part(container, "resources"), at.child("resources")
    yield from _requirement_faults(amounts(resources, "requests"), amounts(resources, "limits"), at, of_pod=False)
    yield from _claim_faults(resources or {}, claims, at)


def byte_fractions(spec: Json, at: ObjectPath) -> Faults:
    """Amounts of bytes that are no whole number, as `memory: 1500m`.

    The API server takes them with a warning; hardly ever are they meant.
    """
    for field in ("initContainers", "containers"):
        for container, place in entries(spec, field, at):
            for which in ("limits", "requests"):
                for name, quantity in amounts(part(container, "resources"), which).items():
                    if name in _BYTES and quantity.nano % _UNIT:
                        text = (
                            f'"{quantity}" is a fraction of a byte and counts as {quantity.value()}; did '
                            f"you mean {quantity.milli()}Mi?"
                        )
                        yield InvalidObject(place.child(f"resources.{which}").key(name), text)


def overhead_faults(overhead: Mapping[str, Any], at: ObjectPath) -> Faults:
    """What a runtime adds; checked as limits."""
    yield from _requirement_faults({}, amounts({"limits": overhead}, "limits"), at, of_pod=False)


def pod_faults(spec: Json, claims: Collection[str], at: ObjectPath, *, windows: bool) -> Faults:
    """The resources of a whole pod, and whether its containers stay within; `at` is the place of the spec."""
    resources = part(spec, "resources")
    if resources is None:
        return
    at = at.child("resources")
    if windows:
        yield InvalidObject(at, "is not allowed for a Windows pod")
        return
    if resources.get("claims") is not None:
        yield InvalidObject(at.child("claims"), "is not allowed for a whole pod")
    total_requests, total_limits = _totals(spec, "requests"), _totals(spec, "limits")
    requests, limits = _pod_defaults(resources, total_requests, total_limits)
    yield from _requirement_faults(requests, limits, at, of_pod=True)
    yield from _claim_faults(resources, claims, at)
    for name, total in total_requests.items():
        if name in requests and total > requests[name]:
            problem = f'"{requests[name]}" is below the sum of the containers, which is "{total}"'
            yield InvalidObject(at.child("requests").key(name), problem)
    for name, total in total_limits.items():
        if name.startswith(HUGE_PAGES) and name in limits and total > limits[name]:
            problem = f'"{limits[name]}" is below the sum of the containers, which is "{total}"'
            yield InvalidObject(at.child("limits").key(name), problem)
    for container, place in entries(spec, "containers", ObjectPath(at.subject, at.field.removesuffix(".resources"))):
        for name, limit in amounts(part(container, "resources"), "limits").items():
            if name in limits and limit > limits[name]:
                problem = f'"{limit}" is above the limit of the pod, which is "{limits[name]}"'
                yield InvalidObject(place.child("resources.limits").key(name), problem)


def _pod_defaults(resources: Json, total_requests: Amounts, total_limits: Amounts) -> tuple[Amounts, Amounts]:
    """Requests and limits of a pod after the API server has filled them in from its containers."""
    requests, limits = amounts(resources, "requests"), amounts(resources, "limits")
    if requests or limits:
        huge = {name: total for name, total in total_limits.items() if name.startswith(HUGE_PAGES)}
        limits = {**{name: total for name, total in huge.items() if name not in requests}, **limits}
    if limits:
        summed = {name: total for name, total in total_requests.items() if name in POD_RESOURCES}
        capped = {name: limit for name, limit in limits.items() if _is_of_pod(name)}
        requests = {**capped, **summed, **requests}
    return requests, limits


def _own(container: Json | None, field: str) -> Amounts:
    """Requests or limits of a container in a pod: what has a limit and no request, requests its limit."""
    resources = part(container or {}, "resources")
    limits = amounts(resources, "limits")
    return limits if field == "limits" else {**limits, **amounts(resources, "requests")}


def _totals(spec: Json, field: str) -> Amounts:
    """What the containers of a pod request at once, or their limits."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _own(container, field))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _own(container, field)
        if text(container or {}, "restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = sidecars
        else:
            own = _sum(own, sidecars)
        most |= {name: max(needed, most.get(name, needed)) for name, needed in own.items()}
    return {name: max(total.get(name, Quantity(0)), most.get(name, Quantity(0))) for name in {**total, **most}}


def _add(total: Amounts, more: Amounts) -> None:
    total |= _sum(total, more)


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, Quantity(0)) + right.get(name, Quantity(0)) for name in {**left, **right}}


def _requirement_faults(requests: Amounts, limits: Amounts, at: ObjectPath, *, of_pod: bool) -> Faults:
    for field, found in (("limits", limits), ("requests", requests)):
        for name, quantity in found.items():
            place = at.child(field).key(name)
            yield from _name_faults(name, place, of_pod=of_pod)
            yield from _amount_faults(name, quantity, place)
            if field == "requests":
                yield from _against_limit(name, quantity, limits.get(name), at)
    both = {**limits, **requests}
    if any(name.startswith(HUGE_PAGES) for name in both) and not set(POD_RESOURCES) & set(both):
        yield InvalidObject(at, "huge pages need cpu or memory beside them")


def _against_limit(name: str, request: Quantity, limit: Quantity | None, at: ObjectPath) -> Faults:
    place = at.child("requests").key(name)
    if limit is None:
        if not _may_be_overcommitted(name):
            yield missing(at.child("limits").key(name), f"{name} cannot be overcommitted and needs a limit")
    elif request != limit and not _may_be_overcommitted(name):
        yield InvalidObject(place, f'"{request}" must equal the limit, which is "{limit}"')
    elif request > limit:
        yield InvalidObject(place, f'"{request}" is above the limit of "{limit}"')


def _amount_faults(name: str, quantity: Quantity, at: ObjectPath) -> Faults:
    if quantity.nano < 0:
        yield InvalidObject(at, f'"{quantity}" is negative')
    if is_extended(name) and quantity.nano % _UNIT:
        yield InvalidObject(at, f'"{quantity}" is not allowed: {name} is counted in whole numbers')
    if name.startswith(HUGE_PAGES) and not _is_multiple_of_page(name, quantity):
        yield InvalidObject(at, f'"{quantity}" is not a multiple of the page size, {name.removeprefix(HUGE_PAGES)}')


def _is_multiple_of_page(name: str, quantity: Quantity) -> bool:
    try:
        page = parse(name.removeprefix(HUGE_PAGES))
    except QuantityError:
        return False
    return page.nano > 0 and page.nano % _UNIT == 0 and quantity.value() % page.value() == 0


def _name_faults(name: str, at: ObjectPath, *, of_pod: bool) -> Faults:
    problems = list(named(name, names.qualified_name, at))
    yield from problems
    if problems:
        return
    if of_pod and not _is_of_pod(name):
        yield InvalidObject(at, f'"{name}" is not allowed: a pod has {", ".join(POD_RESOURCES)} and {HUGE_PAGES}*')
    problem = None if of_pod else resource_name_problem(name)
    if problem:
        yield InvalidObject(at, problem)


def resource_name_problem(name: str) -> str | None:
    """What is wrong with the name of a resource that a container asks for; its characters are known to be right."""
    if "/" not in name:
        if name in CONTAINER_RESOURCES or name.startswith(HUGE_PAGES):
            return None
        hint = did_you_mean(name, CONTAINER_RESOURCES)
        allowed = f"{', '.join(CONTAINER_RESOURCES)}, {HUGE_PAGES}* or a name with a domain such as nvidia.com/gpu"
        return f'"{name}" is not allowed: must be {allowed}{hint}'
    if _NATIVE_DOMAIN not in name and not is_extended(name):
        return f'"{name}" is not allowed as the name of an extended resource'
    return None


def _is_of_pod(name: str) -> bool:
    return name in POD_RESOURCES or name.startswith(HUGE_PAGES)


def _is_native(name: str) -> bool:
    return "/" not in name or _NATIVE_DOMAIN in name


def is_extended(name: str) -> bool:
    """True for resources that device plugins and operators add, such as nvidia.com/gpu."""
    if _is_native(name) or name.startswith(_QUOTA_PREFIX):
        return False
    return not any(True for _ in names.qualified_name(f"{_QUOTA_PREFIX}{name}"))


def _may_be_overcommitted(name: str) -> bool:
    return _is_native(name) and not name.startswith(HUGE_PAGES)


def _claim_faults(resources: Json, known: Collection[str], at: ObjectPath) -> Faults:
    seen: set[tuple[str, str]] = set()
    for claim, place in entries(resources, "claims", at):
        name, request = text(claim, "name"), text(claim, "request")
        if not name:
            yield missing(place)
            continue
        overlaps = {(name, ""), (name, request)} if request else {each for each in seen if each[0] == name}
        if overlaps & seen:
            yield twice(f"{name}/{request}" if request else name, place)
        if request:
            yield from named(request, names.dns_label, place.child("request"))
        seen.add((name, request))
        if name not in known:
            listed = ", ".join(known) or "none"
            yield InvalidObject(place, f'"{name}" is not in spec.resourceClaims, which has {listed}')


def claim_faults(spec: Json, at: ObjectPath) -> Faults:
    """`resourceClaims` of a pod; `at` is the place of the spec."""
    seen: set[str] = set()
    for claim, place in entries(spec, "resourceClaims", at):
        name = text(claim, "name")
        if not name:
            yield missing(place.child("name"))
        elif name in seen:
            yield twice(name, place.child("name"))
        else:
            yield from named(name, names.dns_label, place.child("name"))
            seen.add(name)
        sources = [each for each in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(each) is not None]
        if len(sources) != 1:
            yield InvalidObject(place, "must have one of resourceClaimName and resourceClaimTemplateName")
        for field in sources:
            yield from named(claim[field], names.dns_subdomain, place.child(field))


def resize_faults(container: Json, pod_restart: str, at: ObjectPath) -> Faults:
    """`resizePolicy` of a container; `at` is its place."""
    seen: set[str] = set()
    for policy, place in entries(container, "resizePolicy", at):
        resource, restart = text(policy, "resourceName"), text(policy, "restartPolicy")
        if resource in seen:
            yield twice(resource, place)
        seen.add(resource)
        if resource not in POD_RESOURCES:
            yield InvalidObject(place.child("resourceName"), f'"{resource}" is not allowed: must be cpu or memory')
        if restart not in ("NotRequired", "RestartContainer"):
            problem = f'"{restart}" is not allowed: must be NotRequired or RestartContainer'
            yield InvalidObject(place.child("restartPolicy"), problem)
        if pod_restart == "Never" and restart != "NotRequired":
            yield InvalidObject(
                place.child("restartPolicy"), "must be NotRequired where the pod's restartPolicy is Never"
            )
