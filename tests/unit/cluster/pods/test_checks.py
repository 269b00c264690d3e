"""What the API server would refuse in a pod is refused here too, with the field, its value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.pods.pod_class import PodClasses
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.bodies import Json
from tests.builders.objects import GPU, container, pod


def with_rule(kind: str, **rule: Any) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{kind: [rule]}]}}}


def with_wish(**rule: Any) -> Json:
    wish = {"weight": 1, "preference": {"matchExpressions": [rule]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
OPERATORS = "In, NotIn, Exists, DoesNotExist, Gt, Lt"
PREFERRED = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"


@pytest.mark.parametrize(
    "wrong, message",
    [
        (
            pod(container(requests={"cpu": "2500m"}, limits={"cpu": 2})),
            'spec.containers[0].resources.requests.cpu: "2500m" is above the limit of "2"',
        ),
        (
            pod(container(), init=[container(requests={GPU: 2}, limits={GPU: 1})]),
            'spec.initContainers[0].resources.requests["example.com/gpu"]: "2" is above the limit of "1"',
        ),
        (
            pod(container(), resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}),
            'spec.resources.requests.memory: "2Gi" is above the limit of "1Gi"',
        ),
        (
            pod(container(ports=[{"hostPort": 80}, {"hostPort": 70_000}])),
            "spec.containers[0].ports[1].hostPort: 70000 is not allowed: must be 0 to 65535",
        ),
        (
            pod(container(ports=[{"hostPort": -1}])),
            "spec.containers[0].ports[0].hostPort: -1 is not allowed: must be 0 to 65535",
        ),
        (
            pod(affinity=with_rule("matchExpressions", key="disk", operator="Near")),
            f'{REQUIRED}.matchExpressions[0].operator: "Near" is not allowed: must be {OPERATORS}',
        ),
        (
            pod(affinity=with_rule("matchFields", key="metadata.name", operator="Exists")),
            f'{REQUIRED}.matchFields[0].operator: "Exists" is not allowed: must be In, NotIn',
        ),
        (
            pod(affinity=with_wish(key="disk", operator="in")),
            f'{PREFERRED}.matchExpressions[0].operator: "in" is not allowed: must be {OPERATORS}',
        ),
    ],
    ids=lambda value: "" if isinstance(value, Pod) else value.partition(": ")[0][-40:],
)
def test_is_refused(wrong: Pod, message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        PodClasses().of(wrong)
    assert str(caught.value) == f"Pod default/pod: {message}"


@pytest.mark.parametrize(
    "right",
    [
        pod(container({"cpu": "1.0", "memory": "1024Mi"})),
        pod(container(requests={"cpu": 1}, limits={"cpu": "1000m"})),
        pod(container(requests={"cpu": 4}, limits={"memory": "1Gi"})),
        pod(container(ports=[{"containerPort": 80, "hostPort": 65_535}])),
    ],
    ids=["equal", "equal in other words", "another resource", "the last port"],
)
def test_is_accepted(right: Pod) -> None:
    PodClasses().of(right)


def test_a_bound_pod_is_looked_at_too() -> None:
    with pytest.raises(InvalidObject, match="above the limit"):
        PodClasses().request_of(pod(container(requests={"cpu": 2}, limits={"cpu": 1}), nodeName="n1"))


NEAR = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
WISH = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
EVENLY = "spec.topologySpreadConstraints[0]"
RULE = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}


def near(**fields: Any) -> Json:
    term = {"topologyKey": "rack", "labelSelector": {}, **fields}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near_those(operator: str, *values: str) -> Json:
    return near(labelSelector={"matchExpressions": [{"key": "app", "operator": operator, "values": list(values)}]})


def wish(weight: int, key: str) -> Json:
    entry = {"weight": weight, "podAffinityTerm": {"topologyKey": key}}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [entry]}}


def evenly(*further: Json, **fields: Any) -> Json:
    return {"topologySpreadConstraints": [{**RULE, **fields}, *further]}


@pytest.mark.parametrize(
    "spec, message",
    [
        ({"affinity": near(topologyKey="")}, f"{NEAR}.topologyKey: is missing: must be the key of a node label"),
        (
            {"affinity": near_those("Gt", "1")},
            (
                f'{NEAR}.labelSelector.matchExpressions[0].operator: "Gt" is not allowed: '
                "must be In, NotIn, Exists, DoesNotExist"
            ),
        ),
        (
            {"affinity": near_those("In")},
            f"{NEAR}.labelSelector.matchExpressions[0].values: is empty: In needs at least one value",
        ),
        (
            {"affinity": near_those("Exists", "a")},
            f"{NEAR}.labelSelector.matchExpressions[0].values: is not allowed: Exists takes no values",
        ),
        (
            {"affinity": near(labelSelector=None, matchLabelKeys=["hash"])},
            f"{NEAR}.matchLabelKeys: is only allowed together with labelSelector",
        ),
        (
            {"affinity": near(matchLabelKeys=["hash"], mismatchLabelKeys=["hash"])},
            f'{NEAR}.mismatchLabelKeys: "hash" stands in matchLabelKeys as well',
        ),
        ({"affinity": wish(0, "rack")}, f"{WISH}.weight: 0 is not allowed: must be 1 to 100"),
        ({"affinity": wish(1, "")}, f"{WISH}.podAffinityTerm.topologyKey: is missing: must be the key of a node label"),
        (evenly(maxSkew=0), f"{EVENLY}.maxSkew: 0 is not allowed: must be 1 to 2147483647"),
        (evenly(maxSkew=2**31), f"{EVENLY}.maxSkew: 2147483648 is not allowed: must be 1 to 2147483647"),
        (evenly(topologyKey=""), f"{EVENLY}.topologyKey: is missing: must be the key of a node label"),
        (
            evenly(whenUnsatisfiable="Never"),
            f'{EVENLY}.whenUnsatisfiable: "Never" is not allowed: must be DoNotSchedule, ScheduleAnyway',
        ),
        (evenly(minDomains=0), f"{EVENLY}.minDomains: 0 is not allowed: must be 1 to 2147483647"),
        (
            evenly(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
            f"{EVENLY}.minDomains: is only allowed with whenUnsatisfiable DoNotSchedule",
        ),
        (
            evenly(nodeTaintsPolicy="Maybe"),
            f'{EVENLY}.nodeTaintsPolicy: "Maybe" is not allowed: must be Honor, Ignore',
        ),
        (evenly(matchLabelKeys=["hash"]), f"{EVENLY}.matchLabelKeys: is only allowed together with labelSelector"),
        (
            evenly({**RULE, "maxSkew": 3}),
            (
                'spec.topologySpreadConstraints[1]: topologyKey "rack" with whenUnsatisfiable "DoNotSchedule" '
                "stands here twice"
            ),
        ),
    ],
)
def test_what_a_pod_says_about_others_can_be_read(spec: Json, message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        PodClasses().of(pod(container(), **spec))
    assert str(caught.value) == f"Pod default/pod: {message}"


def test_what_other_pods_of_the_class_say_makes_no_difference() -> None:
    classes = PodClasses()
    assert classes.of(pod(container(), **evenly())) is classes.of(pod(container()))
    with pytest.raises(InvalidObject):
        classes.of(pod(container(), **evenly(maxSkew=0)))
