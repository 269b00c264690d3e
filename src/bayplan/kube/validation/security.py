"""Security contexts of pods and containers, and what an operating system rules out."""

from __future__ import annotations

import re

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import names
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    chosen,
    entries,
    missing,
    named,
    part,
    required,
    text,
    twice,
    within,
)

LARGEST_ID = 2**31 - 1
PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
PROC_MOUNTS = ("Default", "Unmasked")
GROUP_CHANGE_POLICIES = ("Always", "OnRootMismatch")
GROUP_POLICIES = ("Merge", "Strict")
# MountOption needs a feature gate that is off.
SELINUX_POLICIES = ("Recursive",)
LONGEST_PROFILE = 4095
LONGEST_CREDENTIAL_SPEC = 64 * 1024
LONGEST_USER_DOMAIN = 256
LONGEST_USER = 104

_NET_BIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_PART = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_USER_DOMAIN = re.compile(rf"{_DNS_PART}(?:\.{_DNS_PART})*")
_NOT_IN_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]|^[. ]+$')

_NOT_ON_WINDOWS_POD = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "runAsUser"),
    *("runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_NOT_ON_WINDOWS_CONTAINER = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def container_faults(container: Json, at: ObjectPath, *, host_users: bool) -> Faults:
    """The security context of a container; `at` is the container's place."""
    context = part(container, "securityContext")
    if context is None:
        return
    at = at.child("securityContext")
    yield from _common_faults(context, at)
    yield from chosen(context, "procMount", PROC_MOUNTS, at)
    if host_users and context.get("procMount") == "Unmasked":
        yield InvalidObject(at.child("procMount"), "Unmasked is only allowed where hostUsers is false")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            yield InvalidObject(at, "allowPrivilegeEscalation false and privileged true exclude each other")
        if "CAP_SYS_ADMIN" in ((part(context, "capabilities") or {}).get("add") or ()):
            yield InvalidObject(at, "allowPrivilegeEscalation false and capability CAP_SYS_ADMIN exclude each other")


def pod_faults(spec: Json, at: ObjectPath) -> Faults:
    """The security context of a pod and its host namespaces; `at` is the place of the spec."""
    context, place = part(spec, "securityContext") or {}, at.child("securityContext")
    yield from _common_faults(context, place)
    yield from within(context.get("fsGroup"), 0, LARGEST_ID, place.child("fsGroup"))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from within(group, 0, LARGEST_ID, place.child("supplementalGroups").item(index))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield InvalidObject(at.child("shareProcessNamespace"), "is not allowed beside hostPID")
    yield from _sysctl_faults(spec, context, place)
    yield from chosen(context, "fsGroupChangePolicy", GROUP_CHANGE_POLICIES, place)
    yield from chosen(context, "supplementalGroupsPolicy", GROUP_POLICIES, place)
    yield from chosen(context, "seLinuxChangePolicy", SELINUX_POLICIES, place)
    if spec.get("hostUsers") is False:
        yield from _without_host_users(spec, at)
    yield from _host_process_faults(spec, context, at)
    yield from _operating_system_faults(spec, context, at)


def _common_faults(context: Json, at: ObjectPath) -> Faults:
    yield from within(context.get("runAsUser"), 0, LARGEST_ID, at.child("runAsUser"))
    yield from within(context.get("runAsGroup"), 0, LARGEST_ID, at.child("runAsGroup"))
    for field, rule in (("seccompProfile", names.descending_path), ("appArmorProfile", None)):
        profile = part(context, field)
        if profile is not None:
            yield from _profile_faults(profile, at.child(field), rule)
    options = part(context, "windowsOptions")
    if options is not None:
        yield from _windows_options(options, at.child("windowsOptions"))


def _profile_faults(profile: Json, at: ObjectPath, rule: names.Rule | None) -> Faults:
    kind, file = text(profile, "type"), profile.get("localhostProfile")
    if not kind:
        yield missing(at.child("type"))
    else:
        yield from chosen(profile, "type", PROFILE_TYPES, at)
    place = at.child("localhostProfile")
    if kind != "Localhost":
        if file is not None and (rule is not None or kind in PROFILE_TYPES):
            yield InvalidObject(place, "is only allowed where type is Localhost")
    elif file is None or (rule is None and not file):
        yield missing(place, "type Localhost needs it")
    elif rule is not None:
        yield from named(file, rule, place)
    elif file != file.strip() or len(file) > LONGEST_PROFILE:
        yield InvalidObject(place, f"must have no spaces around it and at most {LONGEST_PROFILE} characters")


def _sysctl_faults(spec: Json, context: Json, at: ObjectPath) -> Faults:
    seen: set[str] = set()
    for sysctl, place in entries(context, "sysctls", at):
        name = text(sysctl, "name")
        yield from required(sysctl, "name", place, names.sysctl)
        if name and name in seen:
            yield twice(name, place.child("name"))
        seen.add(name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            yield InvalidObject(place.child("name"), f'"{name}" is not allowed where hostNetwork is true')
        if spec.get("hostIPC") and _is_of_ipc(dotted):
            yield InvalidObject(place.child("name"), f'"{name}" is not allowed where hostIPC is true')


def _is_of_ipc(sysctl: str) -> bool:
    return sysctl == "kernel.sem" or sysctl.startswith(("kernel.shm", "kernel.msg", "fs.mqueue."))


def _without_host_users(spec: Json, at: ObjectPath) -> Faults:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield InvalidObject(at.child(field), "is not allowed where hostUsers is false")
    for container, place in all_containers(spec, at):
        if container.get("volumeDevices"):
            yield InvalidObject(place.child("volumeDevices"), "is not allowed where hostUsers is false")


def all_containers(spec: Json, at: ObjectPath) -> list[tuple[Json, ObjectPath]]:
    """Init containers and containers with their places; `at` is the place of the spec."""
    return [*entries(spec, "initContainers", at), *entries(spec, "containers", at)]


def _windows_options(options: Json, at: ObjectPath) -> Faults:
    if options.get("gmsaCredentialSpecName") is not None:
        yield from named(options["gmsaCredentialSpecName"], names.dns_subdomain, at.child("gmsaCredentialSpecName"))
    spec = options.get("gmsaCredentialSpec")
    if spec is not None and not 0 < len(spec) <= LONGEST_CREDENTIAL_SPEC:
        yield InvalidObject(at.child("gmsaCredentialSpec"), f"must have 1 to {LONGEST_CREDENTIAL_SPEC} characters")
    user = options.get("runAsUserName")
    if user is not None and not _is_windows_user(user):
        yield InvalidObject(at.child("runAsUserName"), f'"{user}" is not allowed: must be USER or DOMAIN\\USER')


def _is_windows_user(written: str) -> bool:
    domain, slash, user = written.rpartition("\\")
    if any(letter < " " or letter == "\x7f" for letter in written) or "\\" in domain:
        return False
    if slash and (
        len(domain) >= LONGEST_USER_DOMAIN or not (_NET_BIOS.fullmatch(domain) or _USER_DOMAIN.fullmatch(domain))
    ):
        return False
    return 0 < len(user) <= LONGEST_USER and not _NOT_IN_USER.search(user)


def _host_process_faults(spec: Json, context: Json, at: ObjectPath) -> Faults:
    of_pod = (part(context, "windowsOptions") or {}).get("hostProcess")
    chosen_by = []
    for container, place in all_containers(spec, at):
        options = part(part(container, "securityContext") or {}, "windowsOptions") or {}
        own = options.get("hostProcess")
        if None not in (own, of_pod) and own != of_pod:
            yield InvalidObject(place.child("securityContext.windowsOptions.hostProcess"), "must be that of the pod")
        chosen_by.append(of_pod if own is None else own)
    if any(chosen_by):
        if not all(chosen_by):
            yield InvalidObject(at, "all containers must be hostProcess containers, or none")
        if not spec.get("hostNetwork"):
            yield InvalidObject(at.child("hostNetwork"), "must be true for hostProcess containers")


def _operating_system_faults(spec: Json, context: Json, at: ObjectPath) -> Faults:
    system = part(spec, "os")
    if system is None:
        return
    name = text(system, "name")
    if not name:
        yield missing(at.child("os.name"))
    elif name == "windows":
        yield from _windows_faults(spec, context, at)
        yield from _not_on(name, spec, context, at, _NOT_ON_WINDOWS_POD, _NOT_ON_WINDOWS_CONTAINER)
    elif name == "linux":
        yield from _not_on(name, spec, context, at, ("windowsOptions",), ("windowsOptions",))
    else:
        yield from chosen(system, "name", ("linux", "windows"), at.child("os"))


def _windows_faults(spec: Json, context: Json, at: ObjectPath) -> Faults:
    if context.get("sysctls"):
        yield InvalidObject(at.child("securityContext.sysctls"), "is not allowed for a windows pod")
    present = [field for field in ("hostPID", "hostIPC") if spec.get(field)]
    for field in present + [field for field in ("hostUsers", "shareProcessNamespace") if spec.get(field) is not None]:
        yield InvalidObject(at.child(field), "is not allowed for a windows pod")


def _not_on(
    system: str, spec: Json, context: Json, at: ObjectPath, of_pod: tuple[str, ...], of_container: tuple[str, ...]
) -> Faults:
    contexts = [(context, at, of_pod)]
    contexts += [(part(each, "securityContext") or {}, place, of_container) for each, place in all_containers(spec, at)]
    for own, place, banned in contexts:
        for field in banned:
            if own.get(field) is not None:
                yield InvalidObject(place.child("securityContext").child(field), f"is not allowed for a {system} pod")
