"""Nodes, volumes and pods at random, over the features by which kube-scheduler's default plugins refuse nodes."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.builders.bodies import node_body, pod_body
from tests.builders.storage import HOSTNAME, ZONE, capacity, claim, csi_driver, csi_node, storage_class, uses, volume

Json = dict[str, Any]
NODES = 24
ZONES = ("a", "b", "c")
DISKS = ("ssd", "hdd")
APPS = ("web", "db", "cache")
CSI = "csi.example.com"
SIZES = ("1Gi", "5Gi", "20Gi")
IMAGES = {f"example.com/{name}": size << 20 for name, size in (("none", 200), ("small", 30), ("large", 3000))}


def nodes(random: Random) -> list[Json]:
    """Nodes of three sizes with zones, disks, generations and taints; some are cordoned."""
    made = []
    for number in range(NODES):
        labels = {ZONE: random.choice(ZONES), "disk": random.choice(DISKS), "generation": str(random.randint(1, 9))}
        for key in list(labels):
            if random.random() < 0.1:
                del labels[key]
        amounts: dict[str, str | int] = {
            "cpu": random.choice((2, 4, 8)),
            "memory": f"{random.choice((4, 8, 16))}Gi",
            "ephemeral-storage": "20Gi",
            "pods": random.choice((4, 8, 110)),
        }
        if random.random() < 0.3:
            amounts["example.com/gpu"] = 2
        body = node_body(f"n{number}", amounts, **labels)
        taints = [
            {"key": key, "value": random.choice(("x", "y")), "effect": random.choice(EFFECTS)}
            for key in ("dedicated", "spot")
            if random.random() < 0.15
        ]
        body["spec"] = {"taints": taints, "unschedulable": random.random() < 0.05}
        body["status"]["images"] = [
            {"names": [f"{name}:latest", f"{name}@sha256:{'0' * 64}"], "sizeBytes": size}
            for name, size in IMAGES.items()
            if random.random() < 0.5
        ]
        if random.random() < 0.7:
            body["status"]["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
        made.append(body)
    return made


RUNTIME: Json = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "sandboxed"},
    "handler": "none",
    "overhead": {"podFixed": {"cpu": "500m", "memory": "1Gi"}},
}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def owners(namespace: str) -> list[Json]:
    """A Service, and a controller of each sort."""
    template = {"spec": {"containers": [{"name": "main", "image": "example.com/none"}]}}
    made: list[Json] = [
        {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"tier": "front"}, "ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "ReplicationController", "spec": {"selector": {"app": "web"}}},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"selector": {"matchLabels": {"app": "db"}}}},
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "spec": {
                "serviceName": "none",
                "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["cache", "db"]}]},
            },
        },
    ]
    for number, body in enumerate(made):
        body["metadata"] = {"name": f"owner-{number}", "namespace": namespace}
        if body["kind"] != "Service":
            app = {"ReplicationController": "web", "ReplicaSet": "db"}.get(body["kind"], "cache")
            body["spec"]["template"] = {"metadata": {"labels": {"app": app}}, **template}
    return made


def scored_pod(random: Random, name: str, namespace: str, owned_by: list[Json]) -> Json:
    """A pod without volumes or gates, with preferences, and often one of a Service or controller."""
    body, _ = pod(random, name, namespace, None)
    spec = body["spec"]
    spec.pop("schedulingGates", None)
    for chance, draw in ((0.4, _preferred_nodes), (0.4, _preferred_pods), (0.3, _images), (0.2, _no_requests)):
        if random.random() < chance:
            draw(random, spec)
    if random.random() < 0.3:
        body["metadata"]["ownerReferences"] = [random.choice(owned_by)]
    return body


def _preferred_nodes(random: Random, spec: Json) -> None:
    preferred = [
        {"weight": random.randint(1, 100), "preference": {"matchExpressions": [_requirement(random)]}}
        for _ in range(random.randint(1, 3))
    ]
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred


def _preferred_pods(random: Random, spec: Json) -> None:
    for kind in random.sample(("podAffinity", "podAntiAffinity"), random.randint(1, 2)):
        term: Json = {"labelSelector": _selector(random), "topologyKey": random.choice((HOSTNAME, ZONE, "disk"))}
        if random.random() < 0.3:
            term["namespaceSelector"] = {}
        wish = {"weight": random.randint(1, 100), "podAffinityTerm": term}
        affinity = spec.setdefault("affinity", {}).setdefault(kind, {})
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [wish]


def _images(random: Random, spec: Json) -> None:
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container["image"] = random.choice(list(IMAGES)) + random.choice(("", ":latest"))


def _no_requests(random: Random, spec: Json) -> None:
    """Containers without one or both amounts, which scores count with defaults."""
    gone = random.choice((("cpu",), ("memory",), ("cpu", "memory")))
    for amounts in spec["containers"][0]["resources"].values():
        for name in gone:
            amounts.pop(name, None)


def storage(random: Random, namespace: str) -> list[Json]:
    """Classes, a limited driver on half of the nodes, and what it can still provision in most zones."""
    made = [storage_class("local"), storage_class("fast", CSI), storage_class("now", CSI, "Immediate"), csi_driver(CSI)]
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}]
    made.append(storage_class("zonal", "other.example.com", allowedTopologies=zones))
    made += [csi_node(f"n{number}", CSI, random.randint(1, 3)) for number in range(NODES) if random.random() < 0.5]
    for zone in ZONES:
        if random.random() < 0.8:
            room = capacity(f"fast-{zone}", "fast", random.choice(("2Gi", "10Gi", "50Gi")), namespace)
            made.append({**room, "nodeTopology": {"matchLabels": {ZONE: zone}}})
    return made


def pod(random: Random, name: str, namespace: str, volumes: Volumes | None) -> tuple[Json, list[Json]]:
    """A pod, and the storage objects to create before it; it has no volumes without a generator of them."""
    amounts: dict[str, str | int] = {
        "cpu": random.choice(("100m", "500m", 1, 2, 4)),
        "memory": f"{random.choice((1, 2, 4))}Gi",
    }
    if random.random() < 0.1:
        amounts["example.com/gpu"] = random.choice((1, 2))
    if random.random() < 0.1:
        amounts["ephemeral-storage"] = "4Gi"
    body = pod_body(name, namespace, amounts, scheduler="default-scheduler")
    body["metadata"]["labels"] = {"app": random.choice(APPS), "tier": random.choice(("front", "back"))}
    spec, objects = body["spec"], []
    for chance, draw in (
        (0.15, _init_containers),
        (0.3, _node_affinity),
        (0.2, _node_selector),
        (0.3, _tolerations),
        (0.15, _host_ports),
        (0.3, _pod_affinity),
        (0.25, _spread),
        (0.1, _overhead),
        (0.05, _features),
        (0.1, _second_container),
        (0.02, _gates),
        (0.05, _pod_level),
    ):
        if random.random() < chance:
            draw(random, spec)
    if volumes is not None and random.random() < 0.35:
        objects = volumes.draw(random, name, namespace, spec)
    return body, objects


def _init_containers(random: Random, spec: Json) -> None:
    """One to three, some of which are sidecars: later ones run beside them."""
    spec["initContainers"] = []
    for number in range(random.choice((1, 1, 2, 3))):
        amounts = {"cpu": random.choice((1, 3)), "memory": "1Gi"}
        init: Json = {"name": f"init-{number}", "image": "example.com/none"}
        init["resources"] = {"requests": amounts, "limits": amounts}
        if random.random() < 0.5:
            init["restartPolicy"] = "Always"
        spec["initContainers"].append(init)


def _second_container(random: Random, spec: Json) -> None:
    amounts = {"cpu": random.choice(("250m", 1)), "memory": "512Mi"}
    second = {"name": "second", "image": "example.com/none", "resources": {"requests": amounts, "limits": amounts}}
    spec["containers"].append(second)


def _gates(random: Random, spec: Json) -> None:
    spec["schedulingGates"] = [{"name": "example.com/wait"}]


def _requirement(random: Random) -> Json:
    kind = random.randrange(6)
    if kind == 0:
        return {"key": "generation", "operator": random.choice(("Gt", "Lt")), "values": [str(random.randint(2, 8))]}
    if kind == 1:
        return {"key": random.choice((ZONE, "disk", "none")), "operator": random.choice(("Exists", "DoesNotExist"))}
    key, values = random.choice(((ZONE, ZONES), ("disk", DISKS)))
    chosen = random.sample(values, random.randint(1, 2))
    return {"key": key, "operator": random.choice(("In", "In", "NotIn")), "values": chosen}


def _term(random: Random) -> Json:
    if random.random() < 0.1:
        fields = {
            "key": "metadata.name",
            "operator": random.choice(("In", "NotIn")),
            "values": [f"n{random.randrange(NODES)}"],
        }
        return {"matchFields": [fields]}
    return {"matchExpressions": [_requirement(random) for _ in range(random.randint(1, 2))]}


def _node_affinity(random: Random, spec: Json) -> None:
    required = {"nodeSelectorTerms": [_term(random) for _ in range(random.randint(1, 2))]}
    spec.setdefault("affinity", {})["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}


def _node_selector(random: Random, spec: Json) -> None:
    spec["nodeSelector"] = {"disk": random.choice(DISKS)} if random.random() < 0.6 else {ZONE: random.choice(ZONES)}


def _tolerations(random: Random, spec: Json) -> None:
    made: list[Json] = []
    for key in random.sample(("dedicated", "spot", ""), random.randint(1, 2)):
        toleration: Json = {"operator": "Exists"} if not key or random.random() < 0.5 else {"value": "x"}
        if key:
            toleration["key"] = key
        if random.random() < 0.5:
            toleration["effect"] = random.choice(EFFECTS)
        made.append(toleration)
    spec["tolerations"] = made


def _host_ports(random: Random, spec: Json) -> None:
    number = random.choice((8080, 8081))
    port: Json = {"containerPort": number, "hostPort": number, "protocol": random.choice(("TCP", "UDP"))}
    if random.random() < 0.5:
        port["hostIP"] = random.choice(("127.0.0.1", "127.0.0.2", "0.0.0.0"))
    spec["containers"][0]["ports"] = [port]


def _selector(random: Random) -> Json:
    if random.random() < 0.3:
        values = random.sample(APPS, 2)
        return {"matchExpressions": [{"key": "app", "operator": random.choice(("In", "NotIn")), "values": values}]}
    return {"matchLabels": {"app": random.choice(APPS)}}


def _pod_affinity(random: Random, spec: Json) -> None:
    kinds = [random.choice(("podAffinity", "podAntiAffinity", "podAntiAffinity"))]
    if random.random() < 0.1:
        kinds = ["podAffinity", "podAntiAffinity"]
    for kind in kinds:
        terms = [_pod_term(random) for _ in range(random.choice((1, 1, 1, 2)))]
        spec.setdefault("affinity", {})[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _pod_term(random: Random) -> Json:
    term: Json = {"labelSelector": _selector(random), "topologyKey": random.choice((HOSTNAME, ZONE, "disk"))}
    if random.random() < 0.3:
        term["namespaceSelector"] = {} if random.random() < 0.5 else {"matchLabels": {"team": "blue"}}
    if random.random() < 0.3:
        term[random.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
    return term


def _spread(random: Random, spec: Json) -> None:
    """One constraint, or two over different keys."""
    keys = random.sample((ZONE, HOSTNAME, "disk"), random.choice((1, 1, 1, 2)))
    spec["topologySpreadConstraints"] = [_constraint(random, key) for key in keys]


def _constraint(random: Random, key: str) -> Json:
    constraint: Json = {
        "maxSkew": random.choice((1, 1, 2)),
        "topologyKey": key,
        "whenUnsatisfiable": random.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(random),
    }
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and random.random() < 0.3:
        constraint["minDomains"] = random.choice((2, 3, 4))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if random.random() < 0.4:
            constraint[field] = random.choice(("Honor", "Ignore"))
    if random.random() < 0.2:
        constraint["matchLabelKeys"] = ["tier"]
    return constraint


def _pod_level(random: Random, spec: Json) -> None:
    if len(spec.get("initContainers", ())) > 1:
        return  # the API server refuses less than the containers request together; no node has more
    amounts = {"cpu": 8, "memory": "6Gi"}
    spec["resources"] = {"requests": amounts, "limits": amounts}


def resized_status(random: Random, containers: list[str]) -> Json:
    """A status as a kubelet writes it while it resizes a pod, or refuses to."""
    in_effect, allocated = ({"cpu": str(random.randint(1, 4)), "memory": f"{random.randint(1, 4)}Gi"} for _ in range(2))
    usual = {"image": "example.com/none", "imageID": "none", "ready": True, "restartCount": 0}
    statuses = [
        {"name": name, **usual, "resources": {"requests": in_effect}, "allocatedResources": allocated}
        for name in containers
    ]
    pending = {"type": "PodResizePending", "status": "True", "reason": random.choice(("Infeasible", "Deferred"))}
    return {"containerStatuses": statuses, "conditions": [pending] if random.random() < 0.5 else []}


def _overhead(random: Random, spec: Json) -> None:
    spec["runtimeClassName"], spec["overhead"] = RUNTIME["metadata"]["name"], RUNTIME["overhead"]["podFixed"]


def _features(random: Random, spec: Json) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    spec["containers"][0].update({"restartPolicy": "Never", "restartPolicyRules": [rule]})


class Volumes:
    """Claims that are bound, wait for their pod, are missing or cannot be bound; some are used by several pods."""

    def __init__(self) -> None:
        self._shared: dict[str, list[str]] = {}

    def draw(self, random: Random, name: str, namespace: str, spec: Json) -> list[Json]:
        """Give a pod a volume; the objects that it needs."""
        kinds = ("bound", "bound", "free", "provisioned", "zonal", "missing", "unbound", "shared", "disk", "ephemeral")
        kind = random.choice(kinds)
        if kind == "ephemeral":
            return self._ephemeral(random, name, namespace, spec)
        if kind == "disk":
            spec["volumes"] = [{"name": "disk", "gcePersistentDisk": {"pdName": random.choice("pqr")}}]
            return []
        spec["volumes"] = uses(name)
        if kind == "missing":
            return []
        known = self._shared.setdefault(namespace, [])
        if kind == "shared" and known:
            spec["volumes"] = uses(random.choice(known))
            return []
        cls = {"free": "local", "provisioned": "fast", "zonal": "zonal", "unbound": "now"}.get(kind, "fast")
        modes = [random.choice(("ReadWriteOnce", "ReadWriteOncePod"))]
        size = random.choice(SIZES)
        wanted = claim(name, size, cls=cls, namespace=namespace, modes=modes)
        if kind not in ("bound", "shared"):
            return [wanted, *self._free(random, name, modes, kind)]
        known.append(name)
        csi: Json = {"csi": {"driver": CSI, "volumeHandle": name}}
        place: Json = random.choice(({"zone": random.choice(ZONES)}, {"labels": {ZONE: random.choice(ZONES)}}, {}))
        backing = volume(name, size, cls=cls, claim=f"{namespace}/{name}", modes=modes, **place, **csi)
        wanted["spec"]["volumeName"] = name
        wanted["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        return [backing, wanted]

    def _ephemeral(self, random: Random, name: str, namespace: str, spec: Json) -> list[Json]:
        """A claim that a controller would create for the pod: it is missing, or another one has its name."""
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        template = {"spec": {**wanted, "storageClassName": "fast"}}
        spec["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        return [claim(f"{name}-scratch", cls="fast", namespace=namespace)] if random.random() < 0.5 else []

    def _free(self, random: Random, name: str, modes: list[str], kind: str) -> list[Json]:
        if kind != "free" or random.random() < 0.3:
            return []
        on = f"n{random.randrange(NODES)}"
        return [volume(f"free-{name}", random.choice(SIZES), on=on, modes=modes)]
