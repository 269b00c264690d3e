"""Objects that a tenant or a node can make, each meant to cost the scheduler as much as possible.

`attacks.py` measures what they cost others.

An attack is a function of a number, so that ten of a kind differ. What it gives is within the limits of the API server:
an object has at most 1.5 MB, annotations 256 kB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, POD_GROUPS

Json = dict[str, Any]
Attack = Callable[[int], list[Json]]

TENANT = "attacker"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
# Stands for something that is nested deeper than it can be encoded.
DEEP = "@deep@"


def encoded(body: Json) -> bytes:
    """An object as it is sent."""
    depth = 1500
    return msgspec.json.encode(body).replace(f'"{DEEP}"'.encode(), b'{"f:a":' * depth + b"{}" + b"}" * depth)


def _main(**amounts: str) -> Json:
    requests = amounts or {"cpu": "10m"}
    return {"name": "main", "image": "x", "resources": {"requests": requests, "limits": requests}}


def _pod(number: int, *, metadata: Json | None = None, **spec: Any) -> list[Json]:
    head = {"name": f"attack-{number}", "namespace": TENANT, **(metadata or {})}
    body = {"schedulerName": "bayplan", "containers": [_main()], **spec}
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": body}]


def _node_terms(*terms: list[Json]) -> Json:
    selector = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    return {"affinity": {"nodeAffinity": {REQUIRED: selector}}}


def _expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _pod_terms(count: int, **more: Any) -> list[Json]:
    return [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"a": f"{each}"}}, **more} for each in range(count)
    ]


def _pod_affinity(kind: str, terms: list[Json], *, wished: bool = False) -> Json:
    weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    return {"affinity": {kind: {PREFERRED: weighted} if wished else {REQUIRED: terms}}}


def _containers(count: int, **more: Any) -> list[Json]:
    return [{**_main(cpu="1m", memory="1Mi"), "name": f"c{each}", **more} for each in range(count)]


def _spread(count: int, key: Callable[[int], str]) -> list[Json]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key(each),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": f"{each}"}},
        }
        for each in range(count)
    ]


def _group(number: int, **spec: Any) -> Json:
    head = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    return {**head, "metadata": {"name": f"attack-{number}", "namespace": TENANT}, "spec": spec}


def _members(number: int, amounts: Callable[[int], Json], count: int) -> Iterator[Json]:
    label = {"bayplan.io/pod-group": f"attack-{number}"}
    for each in range(count):
        (member,) = _pod(number, metadata={"labels": label}, containers=[_main(**amounts(each))])
        member["metadata"]["name"] = f"attack-{number}-{each}"
        yield member


def _gang(number: int, count: int, amounts: Callable[[int], Json]) -> list[Json]:
    return [_group(number, size=count), *_members(number, amounts, count)]


def _unlike(each: int) -> Json:
    return {"cpu": f"{1000 + 7 * each}m", "memory": f"{100 + each}Mi"}


def _equal(_: int) -> Json:
    return {"cpu": "10m", "memory": "1Mi"}


def _owners(number: int, count: int) -> list[Json]:
    return [
        {
            "apiVersion": f"tenant-{number}-{each}.example.com/v1",
            "kind": "Thing",
            "name": "x",
            "uid": f"{number}-{each}",
        }
        for each in range(count)
    ]


BY_TENANT: dict[str, Attack] = {
    "managed fields nested 1,500 deep": lambda n: _pod(
        n,
        metadata={
            "managedFields": [
                {
                    "manager": "x",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": DEEP,
                    "time": "2026-01-01T00:00:00Z",
                }
            ]
        },
    ),
    "a PodGroup with a pod nested 1,500 deep": lambda n: [_group(n, size=1, pod={"spec": {"x": DEEP}})],
    "NotIn with 80,000 values": lambda n: _pod(
        n, **_node_terms([_expression(HOSTNAME, "NotIn", *(f"x{n}-{each}" for each in range(80_000)))])
    ),
    "In with 80,000 values": lambda n: _pod(
        n, **_node_terms([_expression(HOSTNAME, "In", *(f"x{n}-{each}" for each in range(80_000)))])
    ),
    "8,000 resource names": lambda n: _pod(
        n, containers=[_main(**{f"example.com/r{n}-{each}": "1" for each in range(8_000)})]
    ),
    "8,000 affinity terms": lambda n: _pod(n, **_pod_affinity("podAffinity", _pod_terms(8_000))),
    "8,000 anti-affinity terms": lambda n: _pod(n, **_pod_affinity("podAntiAffinity", _pod_terms(8_000))),
    "6,000 preferred anti-affinity terms": lambda n: _pod(
        n, **_pod_affinity("podAntiAffinity", _pod_terms(6_000), wished=True)
    ),
    "4,000 terms about all namespaces": lambda n: _pod(
        n, **_pod_affinity("podAntiAffinity", _pod_terms(4_000, namespaceSelector={}))
    ),
    "a selector NotIn with 80,000 values": lambda n: _pod(
        n,
        **_pod_affinity(
            "podAntiAffinity",
            [
                {
                    "topologyKey": "rack",
                    "labelSelector": {
                        "matchExpressions": [_expression("a", "NotIn", *(f"v{each}" for each in range(80_000)))]
                    },
                }
            ],
        ),
    ),
    "3,000 containers": lambda n: _pod(n, containers=_containers(3_000)),
    "3,000 init containers": lambda n: _pod(n, initContainers=_containers(3_000)),
    "3,000 sidecars": lambda n: _pod(n, initContainers=_containers(3_000, restartPolicy="Always")),
    "3,000 selector terms": lambda n: _pod(
        n, **_node_terms(*([_expression(f"k{n}-{each}", "In", "v")] for each in range(3_000)))
    ),
    "10,000 expressions in one term": lambda n: _pod(
        n, **_node_terms([_expression(f"k{n}-{each}", "DoesNotExist") for each in range(10_000)])
    ),
    "3,000 comparisons of a label": lambda n: _pod(
        n, **_node_terms(*([_expression(HOSTNAME, "Gt", f"{n}{each}")] for each in range(3_000)))
    ),
    "3,000 preferred node terms": lambda n: _pod(
        n,
        affinity={
            "nodeAffinity": {
                PREFERRED: [
                    {"weight": 1, "preference": {"matchExpressions": [_expression(f"k{n}-{each}", "Exists")]}}
                    for each in range(3_000)
                ]
            }
        },
    ),
    "4,000 spread constraints": lambda n: _pod(
        n, topologySpreadConstraints=_spread(4_000, lambda each: f"k{n}-{each}")
    ),
    "10,000 tolerations": lambda n: _pod(
        n, tolerations=[{"key": f"k{n}-{each}", "operator": "Exists"} for each in range(10_000)]
    ),
    "a node selector of 10,000 labels": lambda n: _pod(n, nodeSelector={f"k{n}-{each}": "v" for each in range(10_000)}),
    "10,000 labels": lambda n: _pod(n, metadata={"labels": {f"k{n}-{each}": "v" for each in range(10_000)}}),
    "5,000 misspelt annotations": lambda n: _pod(
        n, metadata={"annotations": {f"bayplan.io/numa-zonez-{n}-{each}": "v" for each in range(5_000)}}
    ),
    "an annotation of 200 kB that is no JSON": lambda n: _pod(
        n, metadata={"annotations": {"bayplan.io/numa-zones": "{" * 200_000}}
    ),
    "10,000 host ports": lambda n: _pod(
        n,
        containers=[
            {
                **_main(),
                "ports": [{"containerPort": 1 + each, "hostPort": 1 + each + 1000 * n} for each in range(10_000)],
            }
        ],
    ),
    "10,000 gates": lambda n: _pod(n, schedulingGates=[{"name": f"g{each}"} for each in range(10_000)]),
    "1,000 owners of kinds that do not exist": lambda n: _pod(n, metadata={"ownerReferences": _owners(n, 1_000)}),
    "a request for a million CPUs": lambda n: _pod(n, containers=[_main(cpu=f"{1_000_000 + n}")]),
    "a PodGroup of 2,000 groups": lambda n: [
        _group(
            n, groups=[{"name": f"g{each}", "size": 1, "pod": {"resources": _unlike(each)}} for each in range(2_000)]
        )
    ],
    "a gang of 500 unlike pods": lambda n: _gang(n, 500, _unlike),
    "a gang of 1,000 equal pods": lambda n: _gang(n, 1_000, _equal),
    "a gang of 10,000 equal pods": lambda n: _gang(n, 10_000, _equal),
}


def _amounts(names: list[str]) -> list[Json]:
    return [{"name": name, "capacity": "8", "allocatable": "8", "available": "8"} for name in names]


def _report(node: str, zones: list[Json], **more: Any) -> list[Json]:
    head = {"apiVersion": NODE_RESOURCE_TOPOLOGIES.api_version, "kind": NODE_RESOURCE_TOPOLOGIES.kind}
    policies = ["SingleNUMANodeContainerLevel"]
    return [{**head, "metadata": {"name": node}, "topologyPolicies": policies, "zones": zones, **more}]


def _zone(number: int, names: list[str], **more: Any) -> Json:
    return {"name": f"node-{number}", "type": "Node", "resources": _amounts(names), **more}


def _attribute(name: str, value: object) -> Json:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return {"name": f"bayplan.io/{name}", "value": text}


def _names(number: int, count: int) -> list[str]:
    return [f"example.com/d{number}-{each}" for each in range(count)]


def _status(node: str, **status: Any) -> list[Json]:
    return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": status}]


def _head(node: str, **metadata: Any) -> list[Json]:
    return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, **metadata}}]


_LAYOUT = {"core": [0] * 4096, "socket": [0] * 4096, "zone": [0] * 4096, "cache": [0] * 4096}
_CPUS = [_attribute("cpus", _LAYOUT), _attribute("free-cpus", "0-4095")]

NodeAttack = Callable[[str, int], list[Json]]
BY_NODE: dict[str, NodeAttack] = {
    "a report of 8,000 names": lambda node, n: _report(node, [_zone(0, _names(n, 8_000))]),
    "a report of 64 zones with 60 names each": lambda node, n: _report(
        node, [_zone(each, _names(n, 60)) for each in range(64)]
    ),
    "a report of 5,000 zones": lambda node, _: _report(node, [_zone(each, ["cpu"]) for each in range(5_000)]),
    "a zone that is there 3,000 times": lambda node, _: _report(node, [_zone(0, ["cpu"]) for _ in range(3_000)]),
    "3,000 zones without a proper name": lambda node, _: _report(
        node, [{**_zone(0, ["cpu"]), "name": f"zone {each}"} for each in range(3_000)]
    ),
    "names of 100,000 characters": lambda node, n: _report(
        node, [_zone(0, [f"{n}" + "x" * 100_000 for _ in range(5)])]
    ),
    "10,000 distances": lambda node, _: _report(
        node, [_zone(0, ["cpu"], costs=[{"name": f"node-{each}", "value": 10} for each in range(10_000)])]
    ),
    "10,000 attributes": lambda node, _: _report(
        node, [_zone(0, ["cpu"])], attributes=[_attribute(f"x{each}", "y") for each in range(10_000)]
    ),
    "an attribute nested 100,000 deep": lambda node, _: _report(
        node, [_zone(0, ["cpu"])], attributes=[_attribute("devices", "[" * 100_000), *_CPUS]
    ),
    "20,000 devices": lambda node, _: _report(
        node,
        [_zone(0, ["cpu"])],
        attributes=[_attribute("devices", {"x.com/d": [(f"d{each}", [0], "free") for each in range(20_000)]}), *_CPUS],
    ),
    "10,000 pods": lambda node, n: _report(
        node,
        [_zone(0, ["cpu"])],
        attributes=[_attribute("pods", {f"a/p{n}-{each}": {"cpu": {"0": 1}} for each in range(10_000)})],
    ),
    "4,096 CPUs that share a core": lambda node, _: _report(node, [_zone(0, ["cpu"])], attributes=_CPUS),
    "a node with 10,000 names": lambda node, n: _status(
        node,
        allocatable={"cpu": "8", "memory": "8Gi", "pods": "110", **dict.fromkeys(_names(n, 10_000), "1")},
        capacity=dict.fromkeys(_names(n, 10_000), "1"),
    ),
    "a node with 10,000 labels": lambda node, n: _head(node, labels={f"k{n}-{each}": "v" for each in range(10_000)}),
    "a node with an annotation of 250 kB": lambda node, n: _head(node, annotations={"x": f"{n}" + "y" * 250_000}),
}
