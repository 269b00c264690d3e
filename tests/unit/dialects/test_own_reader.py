"""From PodGroups to gangs: the pods that are made, whose shape they have, and what is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.state import pod_key
from bayplan.dialects.own.reader import read_gang
from bayplan.extensions import PLACEMENT_STYLE, compat_names
from bayplan.gangs.model import Gang, Patience, Segments
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from tests.builders.gangs import group_object

SHAPE = {"resources": {"cpu": 1}}
NAME_RULE = 'must be lower-case letters, digits and "-", at most 63, as in a label of a host name'


def read(**spec: Any) -> Gang:
    return read_gang(group_object(PodGroup, spec, "train"))


def test_pods_are_made_from_a_shape() -> None:
    gang = read(size=3, minimum=2, pod=SHAPE, topology="network", required="block", preferred="rack")
    assert gang.name == "ml/train"
    assert [pod_key(pod) for pod in gang.pods] == ["ml/train-0", "ml/train-1", "ml/train-2"]
    assert (gang.topology, gang.root.required, gang.root.preferred) == ("network", "block", "rack")
    assert (gang.root.least, gang.spread, gang.patience) == (2, False, None)
    resources = gang.pods[0].spec.containers[0].resources if gang.pods[0].spec.containers else None
    assert resources is not None
    assert resources.requests == resources.limits == {"cpu": 1}


def test_groups_inherit_the_shape_around_them() -> None:
    gang = read(
        pod=SHAPE,
        minimumGroups=1,
        groups=[
            {"name": "leader", "size": 1, "pod": {"resources": {"cpu": 4}}},
            {"name": "workers", "size": 2, "required": "rack", "groups": [{"name": "spare", "size": 1}]},
        ],
    )
    assert [pod_key(pod) for pod in gang.pods] == [
        "ml/train-leader-0",
        "ml/train-workers-0",
        "ml/train-workers-1",
        "ml/train-spare-0",
    ]
    cpus = [container.resources for pod in gang.pods for container in pod.spec.containers or []]
    assert [(each.requests or {})["cpu"] for each in cpus if each] == [4, 1, 1, 1]
    assert gang.root.minimum_groups == 1
    assert gang.root.groups[1].required == "rack"


def test_a_whole_pod_spec_is_taken_as_it_is() -> None:
    spec = {"containers": [{"name": "main"}], "nodeSelector": {"gpu": "yes"}}
    (pod,) = read(size=1, pod={"spec": spec}).pods
    assert pod.spec.node_selector == {"gpu": "yes"}


def test_segments_patience_and_placement() -> None:
    gang = read(
        size=8,
        pod=SHAPE,
        placement="spread",
        patience={"domains": 2, "seconds": 30},
        segments=[
            {"size": 4, "level": "rack", "apart": True},
            {"size": 2, "level": "kubernetes.io/hostname", "preferred": True},
        ],
    )
    assert gang.spread
    assert gang.patience == Patience(2, 30)
    assert gang.root.segments == (
        Segments(4, "rack", apart=True, required=True),
        Segments(2, "kubernetes.io/hostname", apart=False, required=False),
    )


def test_a_group_may_be_a_segment_of_the_one_around_it() -> None:
    segments = [{"name": f"w-{number}", "size": size, "segment": number} for number, size in enumerate((2, 1))]
    gang = read(pod=SHAPE, groups=[{"name": "leader", "size": 1}, {"name": "workers", "groups": segments}])
    assert [(group.name, group.segment, group.segment_of) for group in gang.root.every_group()] == [
        ("", None, None),
        ("leader", None, None),
        ("workers", None, None),
        ("w-0", 0, "workers"),
        ("w-1", 1, "workers"),
    ]


@pytest.mark.parametrize(
    "spec, message",
    [
        ({"size": -1, "pod": SHAPE}, "spec.size: -1 is negative: must be 0 or more"),
        (
            {"pod": SHAPE, "groups": [{"name": name, "size": 1, "segment": 0} for name in "ab"]},
            'spec.groups[1].segment: 0 is the segment of group "a": each group must have its own',
        ),
        ({"size": 1}, "spec.pod: is missing: what do the pods look like?"),
        ({"size": 1, "pod": {}}, "spec.pod: needs one of spec and resources"),
        ({"size": 1, "pod": {"spec": {}, "resources": {}}}, "spec.pod: needs one of spec and resources"),
        (
            {"size": 1, "pod": {"resources": {"cpuu": 1}}},
            (
                'spec.pod.resources.cpuu: "cpuu" is not allowed: must be cpu, memory, ephemeral-storage, hugepages-* '
                "or a name with a domain such as nvidia.com/gpu; did you mean cpu?"
            ),
        ),
        (
            {"size": 1, "pod": {"resources": {"memory": "1gb"}}},
            (
                'spec.pod.resources.memory: invalid quantity "1gb": expected a number with an optional suffix '
                "n u m k M G T P E, Ki Mi Gi Ti Pi Ei or exponent e3"
            ),
        ),
        (
            {"size": 1, "pod": {"spec": {"containers": []}}},
            "spec.pod.spec.containers: is empty: a pod needs at least one container",
        ),
        ({"groups": [{"name": "a", "size": 1}]}, "spec.groups[0].pod: is missing: what do the pods look like?"),
        (
            {"pod": SHAPE, "groups": [{"name": "a", "groups": [{"name": "b", "size": -2}]}]},
            "spec.groups[0].groups[0].size: -2 is negative: must be 0 or more",
        ),
        (
            {"pod": SHAPE, "groups": [{"name": "a", "size": 1, "segment": -1}]},
            "spec.groups[0].segment: -1 is negative: must be 0 or more",
        ),
        ({"size": 100_001, "pod": SHAPE}, "spec.size: 100001 pods are too many: must be at most 100000"),
        (
            {"pod": SHAPE, "groups": [{"name": "a", "size": 10**15}]},
            "spec.size: 1000000000000000 pods are too many: must be at most 100000",
        ),
        ({"placement": "scatter"}, 'spec.placement: "scatter" must be one of binpack, spread'),
        (
            {"style": "slurm"},
            f'spec.style: "slurm" must be one of bayplan, {", ".join(compat_names(PLACEMENT_STYLE))}',
        ),
        (
            {"objective": ["closest", "cheapest"]},
            (
                'spec.objective: "cheapest" must be one of fewest-domains, mean-distance, '
                "fewest-nodes, least-leftover, closest"
            ),
        ),
        ({"objective": ["closest", "closest"]}, 'spec.objective: "closest" is there twice'),
        (
            {"pod": SHAPE, "groups": [{"name": "Leader_1", "size": 1}]},
            f'spec.groups[0].name: "Leader_1" {NAME_RULE}',
        ),
        ({"patience": {"domains": 0, "seconds": 1}}, "spec.patience.domains: 0 must be 1 or more"),
        (
            {"patience": {"domains": 1, "seconds": -5}},
            "spec.patience.seconds: -5 must be a number of seconds, 0 or more",
        ),
        (
            {"patience": {"domains": 1, "seconds": float("nan")}},
            "spec.patience.seconds: nan must be a number of seconds, 0 or more",
        ),
    ],
)
def test_wrong_fields_are_named(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        read(**spec)
    assert str(caught.value) == f"PodGroup ml/train: {message}"


def test_groups_may_be_cut_into_segments() -> None:
    gang = read(pod=SHAPE, groups=[{"name": "workers", "size": 8, "segments": [{"size": 4, "level": "rack"}]}])
    assert gang.root.segments == ()
    assert gang.root.groups[0].segments == (Segments(4, "rack"),)
