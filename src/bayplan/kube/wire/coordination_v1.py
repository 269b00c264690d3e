"""Lease (`coordination.k8s.io/v1`): who leads, and until when unless it is renewed; also a node's sign of life.

The one wire struct that is also written: `kube/client/lease.py` sends it back changed.
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Int32, Metadata, WireStruct

API_VERSION = "coordination.k8s.io/v1"


class LeaseSpec(WireStruct, frozen=True, omit_defaults=True):
    """Times are MicroTime texts such as 2026-01-31T12:00:00.000000Z: the API server takes no other form."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class Lease(WireStruct, frozen=True):
    """A lease."""

    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()
