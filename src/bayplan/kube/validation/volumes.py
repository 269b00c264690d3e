"""Volumes of a pod: exactly one source each, and what each source needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import environment, names, scheduling
from bayplan.kube.validation.containers import PULL_POLICIES
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    amount,
    choice,
    chosen,
    entries,
    labels,
    missing,
    named,
    optional,
    part,
    required,
    text,
    texts,
    twice,
    within,
)

LARGEST_MODE = 0o777
HOST_PATH_TYPES = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate"),
    *("File", "FileOrCreate", "Socket"),
)
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
SHORT_MODES = {
    "ROX": "ReadOnlyMany",
    "RWX": "ReadWriteMany",
    "RWO": "ReadWriteOnce",
    "RWOP": "ReadWriteOncePod",
}
VOLUME_MODES = ("Block", "Filesystem")
AZURE_CACHING = ("None", "ReadOnly", "ReadWrite")
AZURE_KINDS = ("Dedicated", "Managed", "Shared")
SHORTEST_TOKEN = 600
LONGEST_TOKEN = 1 << 32
_ISCSI_NAMES = (
    re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)$"),
    re.compile(r"eui.[A-Za-z0-9]{16}$"),
    re.compile(r"naa.[A-Za-z0-9]{32}$"),
)

Check = Callable[[Json, ObjectPath], Faults]


def faults(spec: Json, pod_name: str, at: ObjectPath) -> Faults:
    """All volumes of a pod; `at` is the place of the spec, the pod's name is empty where it is not known."""
    seen: set[str] = set()
    created = {
        f"{pod_name}-{text(each, 'name')}"
        for each, _ in entries(spec, "volumes", at)
        if pod_name and part(each, "ephemeral") is not None
    }
    for volume, place in entries(spec, "volumes", at):
        name = text(volume, "name")
        found = [*_source_faults(volume, pod_name, place), *required(volume, "name", place, names.dns_label)]
        if name in seen:
            found.append(twice(name, place.child("name")))
        if not found:
            seen.add(name)
        yield from found
        claim = text(part(volume, "persistentVolumeClaim") or {}, "claimName")
        if claim and claim in created:
            where = place.child("persistentVolumeClaim.claimName")
            yield InvalidObject(where, f'"{claim}" is the claim of an ephemeral volume of this pod')


def usable(spec: Json, pod_name: str, at: ObjectPath) -> dict[str, Json]:
    """The volumes that mounts may name: those without a fault. One without a source is an emptyDir."""
    found: dict[str, Json] = {}
    for volume, place in entries(spec, "volumes", at):
        name = text(volume, "name")
        wrong = [*_source_faults(volume, pod_name, place), *required(volume, "name", place, names.dns_label)]
        if not wrong and name not in found:
            found[name] = volume if _sources_of(volume) else {**volume, "emptyDir": {}}
    return found


def _sources_of(volume: Json) -> list[str]:
    return [field for field in volume if field != "name" and volume[field] is not None]


def _source_faults(volume: Json, pod_name: str, at: ObjectPath) -> Faults:
    sources = [kind for kind in _CHECKS if kind in _sources_of(volume)]
    for further in sources[1:]:
        yield InvalidObject(at.child(further), f"is not allowed beside {sources[0]}: a volume has one type")
    for kind in sources[:1]:
        yield from _CHECKS[kind](volume[kind], at.child(kind))
    if sources[:1] == ["ephemeral"] and pod_name and text(volume, "name"):
        for problem in names.dns_subdomain(f"{pod_name}-{text(volume, 'name')}"):
            yield InvalidObject(at.child("name"), f"the name of its claim, which begins with the pod's name, {problem}")


def persistent_source_faults(spec: Json, at: ObjectPath) -> Faults:
    """The one source of a persistent volume."""
    sources = [kind for kind in _PERSISTENT if part(spec, kind) is not None]
    if not sources:
        yield missing(at, "must have one type of volume, such as csi, local or nfs")
    for further in sources[1:]:
        yield InvalidObject(at.child(further), f"is not allowed beside {sources[0]}: a volume has one type")
    for kind in sources[:1]:
        yield from _PERSISTENT[kind](spec[kind], at.child(kind))


def _needs(*fields: str) -> Check:
    def check(source: Json, at: ObjectPath) -> Faults:
        for field in fields:
            if not source.get(field):
                yield missing(at.child(field))

    return check


def _empty_dir(source: Json, at: ObjectPath) -> Faults:
    if amount(source.get("sizeLimit")).nano < 0:
        yield InvalidObject(at.child("sizeLimit"), f'"{source["sizeLimit"]}" is negative')


def _host_path(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "path", at, names.no_backsteps)
    if text(source, "path"):
        yield from chosen(source, "type", HOST_PATH_TYPES, at)


def _git_repo(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "repository", at)
    yield from optional(source, "directory", at, names.descending_path)


def _disk(field: str) -> Check:
    def check(source: Json, at: ObjectPath) -> Faults:
        yield from required(source, field, at)
        yield from within(source.get("partition"), 0, 255, at.child("partition"))

    return check


def _files(name: str) -> Check:
    """A ConfigMap or Secret, whose keys become files."""

    def check(source: Json, at: ObjectPath) -> Faults:
        yield from required(source, name, at)
        yield from within(source.get("defaultMode"), 0, LARGEST_MODE, at.child("defaultMode"))
        yield from _key_faults(source, at)

    return check


def _key_faults(source: Json, at: ObjectPath) -> Faults:
    for item, place in entries(source, "items", at):
        yield from required(item, "key", place)
        yield from required(item, "path", place, names.local_path)
        yield from within(item.get("mode"), 0, LARGEST_MODE, place.child("mode"))


def _nfs(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "server", at)
    yield from required(source, "path", at)
    if not text(source, "path", "/").startswith("/"):
        yield InvalidObject(at.child("path"), f'"{source["path"]}" is not allowed: must be an absolute path')


def _iscsi(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "targetPortal", at)
    yield from required(source, "iqn", at)
    for field in ("iqn", "initiatorName"):
        value = source.get(field)
        if value and not any(each.match(value) for each in _ISCSI_NAMES):
            yield InvalidObject(
                at.child(field), f'"{value}" is not allowed: must be a name that begins with iqn, eui or naa'
            )
    yield from within(source.get("lun"), 0, 255, at.child("lun"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and part(source, "secretRef") is None:
        yield missing(at.child("secretRef"))


def _flocker(source: Json, at: ObjectPath) -> Faults:
    if bool(text(source, "datasetName")) == bool(text(source, "datasetUUID")):
        yield InvalidObject(at, "must have one of datasetName and datasetUUID")
    if "/" in text(source, "datasetName"):
        yield InvalidObject(at.child("datasetName"), "must not contain '/'")


def _cinder(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "volumeID", at)
    if part(source, "secretRef") is not None:
        yield from required(source["secretRef"], "name", at.child("secretRef"))


def _quobyte(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "registry", at)
    pairs = text(source, "registry", "host:1").split(",")
    if not all(":" in pair for pair in pairs):
        yield InvalidObject(at.child("registry"), "must be host:port, or several with commas between them")
    yield from required(source, "volume", at)


def _downward_api(source: Json, at: ObjectPath) -> Faults:
    yield from within(source.get("defaultMode"), 0, LARGEST_MODE, at.child("defaultMode"))
    yield from _downward_items(source, at)


def _downward_items(source: Json, at: ObjectPath) -> Faults:
    for item, place in entries(source, "items", at):
        yield from required(item, "path", place, names.local_path)
        yield from within(item.get("mode"), 0, LARGEST_MODE, place.child("mode"))
        field, resource = part(item, "fieldRef"), part(item, "resourceFieldRef")
        if (field is None) == (resource is None):
            yield InvalidObject(place, "must have one of fieldRef and resourceFieldRef")
        if field is not None:
            yield from environment.field_ref_faults(field, environment.FIELDS_OF_FILES, place.child("fieldRef"))
        elif resource is not None:
            where = place.child("resourceFieldRef")
            yield from environment.resource_ref_faults(resource, where, needs_container=True)


def _fibre_channel(source: Json, at: ObjectPath) -> Faults:
    if bool(source.get("targetWWNs")) == bool(source.get("wwids")):
        yield InvalidObject(at.child("targetWWNs"), "must have one of targetWWNs and wwids")
    if source.get("targetWWNs"):
        if source.get("lun") is None:
            yield missing(at.child("lun"))
        yield from within(source.get("lun"), 0, 255, at.child("lun"))


def _flex(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "driver", at)
    for key in source.get("options") or {}:
        domain = f".{key.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            yield InvalidObject(at.child("options").entry(key), "the domains kubernetes.io and k8s.io are reserved")


def _azure_disk(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "diskName", at)
    yield from required(source, "diskURI", at)
    yield from chosen(source, "cachingMode", AZURE_CACHING, at)
    yield from chosen(source, "kind", AZURE_KINDS, at)
    kind, start = text(source, "kind", "Shared"), text(source, "diskURI")
    expected = "/subscriptions/" if kind == "Managed" else "https://"
    if start and not start.startswith(expected):
        yield InvalidObject(at.child("diskURI"), f'"{start}" is not allowed: must begin with {expected}')


def _storage_os(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "volumeName", at, names.dns_label)
    yield from optional(source, "volumeNamespace", at, names.dns_label)
    if part(source, "secretRef") is not None:
        yield from required(source["secretRef"], "name", at.child("secretRef"))


def _csi(source: Json, at: ObjectPath) -> Faults:
    driver = text(source, "driver")
    if not driver:
        yield missing(at.child("driver"))
    elif len(driver) > names.LONGEST_LABEL or any(True for _ in names.dns_subdomain(driver.lower())):
        yield InvalidObject(at.child("driver"), f'"{driver}" is not allowed: must be a domain of at most 63 characters')
    if part(source, "nodePublishSecretRef") is not None:
        place = at.child("nodePublishSecretRef")
        yield from required(source["nodePublishSecretRef"], "name", place, names.dns_subdomain)


def _image(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "reference", at)
    yield from choice(text(source, "pullPolicy", "Always"), PULL_POLICIES, at.child("pullPolicy"))


def _projected(source: Json, at: ObjectPath) -> Faults:
    yield from within(source.get("defaultMode"), 0, LARGEST_MODE, at.child("defaultMode"))
    paths: set[str] = set()
    for projection, place in entries(source, "sources", at):
        # Bundles and certificates need feature gates that are off: the API server drops them.
        kinds = [kind for kind in _PROJECTIONS if part(projection, kind) is not None]
        if len(kinds) > 1:
            yield InvalidObject(place, f"must have only one of {', '.join(kinds)}")
        for kind in kinds:
            yield from _PROJECTIONS[kind](projection[kind], place.child(kind))
            items = () if kind == "serviceAccountToken" else projection[kind].get("items") or ()
            for path in filter(None, (text(each or {}, "path") for each in items)):
                if path in paths:
                    yield twice(path, place.child(kind))
                paths.add(path)


def _projected_files(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "name", at)
    yield from _key_faults(source, at)


def _token(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "path", at, names.local_path)
    yield from within(source.get("expirationSeconds"), SHORTEST_TOKEN, LONGEST_TOKEN, at.child("expirationSeconds"))


def _ephemeral(source: Json, at: ObjectPath) -> Faults:
    template = part(source, "volumeClaimTemplate")
    if template is None:
        yield missing(at.child("volumeClaimTemplate"))
        return
    at = at.child("volumeClaimTemplate")
    metadata = part(template, "metadata") or {}
    yield from labels(metadata, "labels", at.child("metadata"))
    for key in metadata.get("annotations") or {}:
        yield from named(key.lower(), names.qualified_name, at.child("metadata.annotations"))
    for field in metadata:
        if field not in ("labels", "annotations", "creationTimestamp", "managedFields") and metadata[field]:
            yield InvalidObject(at.child("metadata").child(field), "is not allowed in a template of a claim")
    yield from claim_faults(part(template, "spec") or {}, at.child("spec"))


def claim_faults(spec: Json, at: ObjectPath) -> Faults:
    """The spec of a claim, or of a template of one."""
    yield from claim_value_faults(spec, at)
    yield from further_claim_faults(spec, at)


def claim_value_faults(spec: Json, at: ObjectPath) -> Faults:
    """Values of a claim that mean nothing."""
    yield from mode_faults(spec, at)
    yield from scheduling.selector_faults(spec, "selector", at)
    storage = _storage_of(spec)
    if storage is not None and amount(storage).nano <= 0:
        yield InvalidObject(at.child("resources.requests.storage"), f'"{storage}" is not allowed: must be more than 0')


def mode_faults(spec: Json, at: ObjectPath) -> Faults:
    """The modes of a claim or a volume."""
    modes = [mode for mode, _ in texts(spec, "accessModes", at)]
    for mode, place in texts(spec, "accessModes", at):
        if mode in SHORT_MODES:
            yield InvalidObject(place, f'"{mode}" is not allowed: write {SHORT_MODES[mode]}')
        else:
            yield from choice(mode, ACCESS_MODES, place)
    if "ReadWriteOncePod" in modes and set(modes) & set(ACCESS_MODES) != {"ReadWriteOncePod"}:
        yield InvalidObject(at.child("accessModes"), "ReadWriteOncePod is not allowed beside others")
    yield from chosen(spec, "volumeMode", VOLUME_MODES, at)


def _storage_of(spec: Json) -> Any:
    return ((part(spec, "resources") or {}).get("requests") or {}).get("storage")


def further_claim_faults(spec: Json, at: ObjectPath) -> Faults:
    """What a claim lacks, and what it refers to."""
    if not spec.get("accessModes"):
        yield missing(at.child("accessModes"))
    if _storage_of(spec) is None:
        yield missing(at.child("resources.requests.storage"))
    yield from optional(spec, "storageClassName", at, names.dns_subdomain)
    yield from optional(spec, "volumeAttributesClassName", at, names.dns_subdomain)
    for field in ("dataSource", "dataSourceRef"):
        if part(spec, field) is not None:
            yield from _data_source(spec[field], at.child(field))


def _data_source(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "name", at)
    yield from required(source, "kind", at)
    yield from optional(source, "apiGroup", at, names.dns_subdomain)
    if not text(source, "apiGroup") and text(source, "kind") != "PersistentVolumeClaim":
        yield InvalidObject(at, "must be a PersistentVolumeClaim where no apiGroup is given")


_CHECKS: dict[str, Check] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _git_repo,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "secret": _files("secretName"),
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": _needs("endpoints", "path"),
    "flocker": _flocker,
    "persistentVolumeClaim": _needs("claimName"),
    "rbd": _needs("monitors", "image"),
    "cinder": _cinder,
    "cephfs": _needs("monitors"),
    "quobyte": _quobyte,
    "downwardAPI": _downward_api,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "configMap": _files("name"),
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "projected": _projected,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}


def _local(source: Json, at: ObjectPath) -> Faults:
    yield from required(source, "path", at, names.no_backsteps)


def _persistent_csi(source: Json, at: ObjectPath) -> Faults:
    yield from _csi(source, at)
    yield from required(source, "volumeHandle", at)


_IN_PODS_ALONE = ("emptyDir", "gitRepo", "secret", "configMap", "downwardAPI", "projected", "ephemeral", "image")
_PERSISTENT: dict[str, Check] = {
    **{kind: check for kind, check in _CHECKS.items() if kind not in (*_IN_PODS_ALONE, "persistentVolumeClaim")},
    "local": _local,
    "csi": _persistent_csi,
}

_PROJECTIONS: dict[str, Check] = {
    "secret": _projected_files,
    "configMap": _projected_files,
    "downwardAPI": _downward_items,
    "serviceAccountToken": _token,
}
