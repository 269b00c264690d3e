"""bayplan's own PodGroup on the wire: what is written is read, and what is misspelt is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.kube.errors import field_and_problem
from bayplan.kube.wire.bayplan_v1alpha1 import MOST_GROUP_LEVELS, GroupSpec, PodGroup, PodGroupSpec

EVERYTHING = """
metadata: {name: pretrain, namespace: ml, labels: {team: llm}}
spec:
  topology: network
  required: example.com/block
  preferred: example.com/rack
  size: 8
  minimum: 4
  placement: spread
  pod: {resources: {cpu: 8, nvidia.com/gpu: 8}}
  segments:
    - {size: 4, level: example.com/rack, apart: true}
    - {size: 2, level: kubernetes.io/hostname, preferred: true}
  patience: {domains: 1, seconds: 30}
  minimumGroups: 1
  groups:
    - name: replicas
      groups:
        - {name: leader, size: 1, required: kubernetes.io/hostname}
        - name: workers
          size: 3
          preferred: example.com/rack
          pod: {spec: {containers: [{name: main}]}}
"""


def read(text: str) -> PodGroup:
    return msgspec.yaml.decode(text, type=PodGroup)


def test_every_field_is_read() -> None:
    spec = read(EVERYTHING).spec
    assert (spec.topology, spec.required, spec.preferred) == ("network", "example.com/block", "example.com/rack")
    assert (spec.size, spec.minimum, spec.placement, spec.minimum_groups) == (8, 4, "spread", 1)
    assert spec.pod is not None
    assert spec.pod.resources == {"cpu": 8, "nvidia.com/gpu": 8}
    assert spec.segments is not None
    assert [(each.size, each.level, each.apart, each.preferred) for each in spec.segments] == [
        (4, "example.com/rack", True, False),
        (2, "kubernetes.io/hostname", False, True),
    ]
    assert spec.patience is not None
    assert (spec.patience.domains, spec.patience.seconds) == (1, 30)
    (replicas,) = spec.groups or []
    leader, workers = replicas.groups or []
    assert (leader.name, leader.size, leader.required, leader.pod) == ("leader", 1, "kubernetes.io/hostname", None)
    assert workers.pod is not None
    assert workers.pod.spec is not None


def test_nothing_is_required_but_a_groups_name() -> None:
    spec = read("metadata: {name: empty}").spec
    assert (spec.size, spec.placement, spec.groups, spec.pod) == (0, "binpack", None, None)


@pytest.mark.parametrize(
    "spec, complaint",
    [
        ({"requires": "rack"}, "Object contains unknown field `requires` - at `$.spec`"),
        ({"groups": [{"name": "a", "topology": "x"}]}, "unknown field `topology` - at `$.spec.groups[0]`"),
        ({"groups": [{"size": 1}]}, "missing required field `name` - at `$.spec.groups[0]`"),
        ({"segments": [{"size": 2}]}, "missing required field `level` - at `$.spec.segments[0]`"),
        ({"size": "many"}, "Expected `int`, got `str` - at `$.spec.size`"),
        ({"pod": {"containers": []}}, "unknown field `containers` - at `$.spec.pod`"),
        ({"patience": {"domains": 1}}, "missing required field `seconds` - at `$.spec.patience`"),
    ],
)
def test_a_field_that_does_not_exist_is_an_error_not_a_silence(spec: dict[str, Any], complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"metadata": {"name": "gang"}, "spec": spec}, PodGroup)
    assert complaint in str(caught.value)


def nested(depth: int) -> bytes:
    """A PodGroup with groups nested so deep, with another group beside each."""
    inside = b"[]"
    for level in range(depth):
        inside = b'[{"name": "beside-%d"}, {"name": "level-%d", "groups": %s}]' % (level, level, inside)
    return b'{"metadata": {"name": "deep", "namespace": "ml"}, "spec": {"groups": %s}}' % inside


@pytest.mark.parametrize("depth", [0, 1, MOST_GROUP_LEVELS])
def test_groups_may_be_nested_up_to_the_limit(depth: int) -> None:
    group: PodGroupSpec | GroupSpec = msgspec.json.decode(nested(depth), type=PodGroup).spec
    for _ in range(depth):
        _, group = group.groups or []
    assert not group.groups


@pytest.mark.parametrize("depth", [MOST_GROUP_LEVELS + 1, 100, 200])
def test_groups_that_are_nested_deeper_are_refused(depth: int) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(nested(depth), type=PodGroup)
    problem = f"groups are nested more than {MOST_GROUP_LEVELS} deep, the limit"
    assert field_and_problem(refused.value, PodGroup) == ("spec", problem)
