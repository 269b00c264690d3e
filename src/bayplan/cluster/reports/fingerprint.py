"""The fingerprint of a set of pods: how a node's report says which pods it shows, in 24 characters.

The agents of scheduler-plugins publish no list of pods. They publish a hash over the names of the pods that they saw,
as the report's attribute `nodeTopologyPodsFingerprint` (older agents use an annotation), together with the method: over
`all` pods, or only over those `with-exclusive-resources`. A reader that knows the same names computes the same hash,
and then knows that the report shows these pods and no others.

    hash of a pod      XXH64(name, seed = XXH64(namespace))
    fingerprint        "pfp0" "v001" and 16 hex digits of XXH64 over the pods' hashes, ascending,
                       8 bytes little-endian each

`cluster/reports/shown_pods.py` finds out for the ledger which pods a report shows; `compat/scheduler_plugins/cache/`
uses it as scheduler-plugins does.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from struct import unpack_from
from typing import NamedTuple

from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology

ATTRIBUTE = "nodeTopologyPodsFingerprint"
METHOD_ATTRIBUTE = "nodeTopologyPodsFingerprintMethod"
ANNOTATION = "topology.node.k8s.io/fingerprint"
METHOD_EXCLUSIVE = "with-exclusive-resources"

PREFIX = "pfp0"
VERSION = "v001"
# Prefix, version and half of the hash: less than that is no fingerprint of any version.
SHORTEST = 16

PodName = tuple[str, str]
"""Namespace and name."""


class Check(Enum):
    """What comes of comparing a published fingerprint with the pods one knows."""

    OK = "ok"
    MALFORMED = "malformed"
    INCOMPATIBLE_VERSION = "incompatible-version"
    MISMATCH = "mismatch"


def fingerprint_of(pods: Iterable[PodName]) -> str:
    """The fingerprint of a set of pods, in whichever order they come; a pod that comes twice counts twice."""
    return fingerprint_of_hashes(pod_hash(namespace, name) for namespace, name in pods)


def fingerprint_of_hashes(hashes: Iterable[int]) -> str:
    """The same for pods whose hashes are known."""
    data = b"".join(each.to_bytes(8, "little") for each in sorted(hashes))
    return f"{PREFIX}{VERSION}{xxh64(data):016x}"


@lru_cache(maxsize=262_144)
def pod_hash(namespace: str, name: str) -> int:
    """The hash of one pod.

    Kept, because a pod is looked at with every report of its node: 2.4 us the first time, 0.1 after that.
    """
    return xxh64(name.encode(), _namespace_hash(namespace))


@lru_cache(maxsize=16_384)
def _namespace_hash(namespace: str) -> int:
    return xxh64(namespace.encode())


def check(published: str, pods: Iterable[PodName]) -> Check:
    """Does a published fingerprint stand for exactly these pods?"""
    if len(published) < SHORTEST or not published.startswith(PREFIX):
        return Check.MALFORMED
    if not is_comparable(published):
        return Check.INCOMPATIBLE_VERSION
    return Check.OK if fingerprint_of(pods) == published else Check.MISMATCH


def is_comparable(published: str) -> bool:
    """True if a text may be the fingerprint of some pods, in our version."""
    return len(published) >= SHORTEST and published.startswith(PREFIX + VERSION)


class Published(NamedTuple):
    """What a report says about the pods that it shows; all empty if it says nothing."""

    fingerprint: str
    method: str
    in_annotation: bool


def published_in(topology: NodeResourceTopology) -> Published:
    """The fingerprint of a report.

    The attribute comes first, and the method goes with it; of equal names the first counts.
    """
    attributes = {each.name: each.value for each in reversed(topology.attributes or [])}
    if ATTRIBUTE in attributes:
        return Published(attributes[ATTRIBUTE], attributes.get(METHOD_ATTRIBUTE, ""), in_annotation=False)
    return Published((topology.metadata.annotations or {}).get(ANNOTATION, ""), "", in_annotation=True)


# -- XXH64 ------------------------------------------------------------------------------------------------------------

_PRIME_1 = 0x9E3779B185EBCA87
_PRIME_2 = 0xC2B2AE3D27D4EB4F
_PRIME_3 = 0x165667B19E3779F9
_PRIME_4 = 0x85EBCA77C2B2AE63
_PRIME_5 = 0x27D4EB2F165667C5
_BITS = 0xFFFFFFFFFFFFFFFF


def xxh64(data: bytes, seed: int = 0) -> int:
    """XXH64 as its specification describes it: four lanes over stripes of 32 bytes, then what is left, then an
    avalanche.
    """
    size = len(data)
    words = unpack_from(f"<{size // 8}Q", data)
    in_stripes = len(words) - len(words) % 4
    if in_stripes:
        lanes = [(seed + _PRIME_1 + _PRIME_2) & _BITS, (seed + _PRIME_2) & _BITS, seed, (seed - _PRIME_1) & _BITS]
        for number, lane in enumerate(lanes):
            for word in words[number:in_stripes:4]:
                lane = (lane + word * _PRIME_2) & _BITS  # noqa: PLW2901 - `_round`, written out: this is where the time goes
                lane = (lane << 31 | lane >> 33) * _PRIME_1 & _BITS  # noqa: PLW2901
            lanes[number] = lane
        found = sum(_rotated(lane, shift) for lane, shift in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _PRIME_1 + _PRIME_4) & _BITS
    else:
        found = seed + _PRIME_5
    found = (found + size) & _BITS
    for word in words[in_stripes:]:
        found = (_rotated(found ^ _round(0, word), 27) * _PRIME_1 + _PRIME_4) & _BITS
    at = 8 * len(words)
    if at + 4 <= size:
        found ^= int.from_bytes(data[at : at + 4], "little") * _PRIME_1 & _BITS
        found = (_rotated(found, 23) * _PRIME_2 + _PRIME_3) & _BITS
        at += 4
    for byte in data[at:]:
        found = _rotated(found ^ (byte * _PRIME_5 & _BITS), 11) * _PRIME_1 & _BITS
    found = (found ^ found >> 33) * _PRIME_2 & _BITS
    found = (found ^ found >> 29) * _PRIME_3 & _BITS
    return found ^ found >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIME_2) & _BITS, 31) * _PRIME_1 & _BITS


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _BITS
