"""Every family of every peer."""

from __future__ import annotations

from tests.peers import kai, kubelet, kueue, node_resource_topology
from tests.peers.catalogue import Peer
from tests.peers.family import Family

FAMILIES = kai.FAMILIES + kueue.FAMILIES + kubelet.FAMILIES + node_resource_topology.FAMILIES


def families_of(peer: Peer) -> list[Family]:
    """The families that a peer answers."""
    numbers = tuple(map(int, peer.version.split(".")))
    return [family for family in FAMILIES if family.peer == peer.name and numbers >= family.since]
