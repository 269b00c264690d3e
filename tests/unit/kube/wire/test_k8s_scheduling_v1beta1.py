"""Kubernetes' PodGroups in every version: each object knows the version it was read in, and both forms of its words are
read.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.kube.client.decoding import decoder_of
from bayplan.kube.resources import KUBERNETES_POD_GROUPS
from bayplan.kube.wire.k8s_scheduling_v1beta1 import API_VERSIONS, AskedOfAnyGroup, DisruptionMode, Mode


def pod_group(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train", "namespace": "ml", "resourceVersion": "7"}, "spec": {}, **more}


@pytest.mark.parametrize("api_version", API_VERSIONS)
def test_a_list_leaves_the_version_out_and_decoding_fills_it_in(api_version: str) -> None:
    page = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [pod_group()]}).encode()
    (read,), broken, _ = decoder_of(KUBERNETES_POD_GROUPS.at(api_version)).page(page)
    assert (read.api_version, broken) == (api_version, [])


def test_a_watch_says_the_version_itself() -> None:
    change = {"type": "ADDED", "object": pod_group(apiVersion="scheduling.k8s.io/v1alpha3", kind="PodGroup")}
    said = decoder_of(KUBERNETES_POD_GROUPS).lines(json.dumps(change).encode() + b"\n")
    assert [each.object.api_version for each in said.changes] == ["scheduling.k8s.io/v1alpha3"]


@pytest.mark.parametrize(
    "mode, meant",
    [
        (None, ""),
        ("Pod", "single"),
        ("PodGroup", "all"),
        (DisruptionMode(single=Mode()), "single"),
        (DisruptionMode(all=Mode()), "all"),
        (DisruptionMode(), ""),
    ],
)
def test_disruption_modes_of_both_forms(mode: str | DisruptionMode | None, meant: str) -> None:
    assert AskedOfAnyGroup(disruption_mode=mode).evicts == meant
