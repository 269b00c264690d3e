"""Volcano's HyperNodes in one line each."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.kube.wire.volcano_topology_v1alpha1 import HyperNode


def hyper_node(name: str, tier: int, *members: dict[str, Any], tier_name: str = "") -> HyperNode:
    """A HyperNode with its tier and members."""
    spec = {"tier": tier, "tierName": tier_name, "members": list(members)}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, HyperNode)


def named(node: str) -> dict[str, Any]:
    """A node by its name."""
    return {"type": "Node", "selector": {"exactMatch": {"name": node}}}


def pattern(text: str) -> dict[str, Any]:
    """Nodes by a pattern in their names."""
    return {"type": "Node", "selector": {"regexMatch": {"pattern": text}}}


def with_labels(**labels: str) -> dict[str, Any]:
    """Nodes by labels."""
    return {"type": "Node", "selector": {"labelMatch": {"matchLabels": labels}}}


def inside(name: str) -> dict[str, Any]:
    """Another HyperNode."""
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}
