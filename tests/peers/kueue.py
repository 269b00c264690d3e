"""Clusters and workloads for Kueue's Topology Aware Scheduling, in the form of its recordings.

One to four levels with and without host names, values that repeat under different parents, nodes outside the topology,
not ready, cordoned or tainted, pods that Kueue does not manage, workloads that run already; pod sets with a required,
preferred or no level, slices in up to three layers, leaders, selectors and affinity, failed nodes, workloads that grow.
Every gate that changes where pods go.
"""

from __future__ import annotations

from random import Random

from tests.conformance.test_kueue import assignment_problem
from tests.peers.asking import Json
from tests.peers.family import Family

HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
LEVELS = ("cloud/zone", "cloud/block", "cloud/rack")
VALUES = ("r1", "r2", "r10", "a.b", "a", "b.c")
DEFAULT_GATES = {
    "ElasticJobsViaWorkloadSlices": False,
    "ElasticJobsViaWorkloadSlicesWithTAS": False,
    "SkipReassignmentForPodOwnedWorkloads": True,
    "TASBalancedPlacement": False,
    "TASMultiLayerTopology": True,
    "TASProfileMixed": True,
    "TASRespectNodeAffinityPreferred": False,
}
GATES: tuple[dict[str, bool], ...] = (
    *({},) * 6,
    *({"TASBalancedPlacement": True},) * 3,
    {"TASProfileMixed": False},
    {"TASRespectNodeAffinityPreferred": True},
    {"TASRespectNodeAffinityPreferred": True, "TASBalancedPlacement": True},
)
ELASTIC = {"ElasticJobsViaWorkloadSlices": True, "ElasticJobsViaWorkloadSlicesWithTAS": True}
MEMORY = 2**30


def draw_assignment(random: Random, _version: str) -> Json:
    """A cluster and a new workload."""
    case = _cluster(random, by_host=random.random() < 0.75)
    case["podSets"] = _pod_sets(random, case)
    return _complete(case, random.choice(GATES))


def draw_replacement(random: Random, _version: str) -> Json:
    """A workload that runs and has lost a node."""
    case = _cluster(random, by_host=True)
    pod_set = _pod_set(random, case, "main")
    domains = _where_it_runs(random, case, pod_set)
    pod_set["count"] = sum(domain["count"] for domain in domains)
    case["podSets"] = [pod_set]
    failed = random.choice(domains)["values"][-1]
    for node in case["nodes"]:
        if node["labels"].get(HOSTNAME) == failed and random.random() < 0.7:
            node["ready"] = "False"
    owners = [{"apiVersion": "v1", "kind": random.choice(("Pod", "Job")), "name": "owner"}]
    case["workload"] = {
        "name": "workload",
        "namespace": "default",
        "owners": owners * random.choice((1, 1, 2)),
        "unhealthyNodes": [failed],
        "admission": [
            {
                "podSet": "main",
                "count": pod_set["count"],
                "topologyAssignment": {"levels": [HOSTNAME], "domains": domains},
            }
        ],
    }
    gates = random.choice(({}, {}, {"SkipReassignmentForPodOwnedWorkloads": False}))
    return _complete(case, gates)


def _where_it_runs(random: Random, case: Json, pod_set: Json) -> list[Json]:
    """Hosts of a workload as Kueue would have assigned them: in the required domain, each slice whole in a domain of
    its level.
    """
    levels = case["topology"]["levels"]
    request = pod_set.get("topologyRequest") or {}
    layers = request.get("podsetSliceRequiredTopologyConstraints") or []
    if request.get("podSetSliceRequiredTopology"):
        layers = [{"topology": request["podSetSliceRequiredTopology"], "size": request["podSetSliceSize"]}]
    pods: dict[str, int] = {}

    def put(inner: list[Json], size: int, nodes: list[Json]) -> None:
        if not inner:
            for _ in range(size):
                host = random.choice(nodes)["labels"][HOSTNAME]
                pods[host] = pods.get(host, 0) + 1
            return
        for _ in range(size // inner[0]["size"]):
            put(inner[1:], inner[0]["size"], _hosts_beside(random, nodes, levels, inner[0]["topology"]))

    together = _hosts_beside(random, case["nodes"], levels, request.get("required"))
    put(layers, _slice_size(pod_set) * random.randint(1, 3), together)
    return [{"values": [host], "count": count} for host, count in sorted(pods.items())]


def _hosts_beside(random: Random, nodes: list[Json], levels: list[str], level: str | None) -> list[Json]:
    """The nodes of one domain of a level; all of them without a level."""
    if level not in levels:
        return nodes
    above = levels[: levels.index(level) + 1]
    one = random.choice(nodes)["labels"]
    return [node for node in nodes if all(node["labels"].get(each) == one.get(each) for each in above)]


def draw_elastic(random: Random, _version: str) -> Json:
    """A workload that grows or shrinks: its earlier assignment is known."""
    case = _cluster(random, by_host=random.random() < 0.8)
    pod_set = _pod_set(random, case, "main")
    pod_set["topologyRequest"] = random.choice(({"unconstrained": True}, pod_set.get("topologyRequest")))
    pod_set["implied"] = pod_set["topologyRequest"] is None
    levels = case["topology"]["levels"]
    shown = levels[-1:] if levels[-1] == HOSTNAME else levels
    places = sorted({tuple(node["labels"].get(level, "gone") for level in shown) for node in case["nodes"]})
    chosen = sorted(random.sample(places, min(len(places), random.randint(1, 3))))
    size = _slice_size(pod_set)
    domains = [{"values": list(values), "count": size * random.randint(1, 3)} for values in chosen]
    pod_set["previousAssignment"] = {"levels": list(shown), "domains": domains}
    case["podSets"] = [pod_set]
    return _complete(case, ELASTIC)


def _complete(case: Json, gates: dict[str, bool]) -> Json:
    case["gates"] = {"explicit": gates}
    return derive(case)


def derive(case: Json) -> Json:
    """The gates as they are in effect, and what is left in each domain."""
    gates = {**DEFAULT_GATES, **case["gates"]["explicit"]}
    return {**case, "gates": {**case["gates"], "effective": gates}, "leaves": leaves_of(case)}


# -- the cluster ------------------------------------------------------------------------------------------------------


def _cluster(random: Random, *, by_host: bool) -> Json:
    depth = random.randint(0 if by_host else 1, 3)
    levels = [*LEVELS[len(LEVELS) - depth :], *([HOSTNAME] if by_host else [])]
    pool = {"pool": "tas"} if random.random() < 0.15 else {}
    few = VALUES[:2] if random.random() < 0.6 else VALUES
    nodes = [_node(random, f"x{number}", levels, few, pool) for number in range(random.choice((1, 2, 4, 6, 9, 14, 30)))]
    tolerations = [{"key": "maintenance", "operator": "Exists"}] if random.random() < 0.1 else []
    case: Json = {
        "topology": {"name": "default", "levels": levels},
        "flavor": {"nodeLabels": pool, "tolerations": tolerations},
        "nodes": nodes,
    }
    case["nonTASPods"] = [_foreign_pod(random, number, nodes) for number in range(random.choice((0, 0, 1, 4, 10)))]
    case["priorUsage"] = {"own": [_usage(random, levels, nodes) for _ in range(random.choice((0, 0, 1, 3, 8)))]}
    return case


def _node(random: Random, name: str, levels: list[str], values: tuple[str, ...], pool: dict[str, str]) -> Json:
    labels = {level: random.choice(values) for level in levels if level != HOSTNAME and random.random() < 0.98}
    labels[HOSTNAME] = name
    labels["disk"] = random.choice(("ssd", "hdd"))
    labels["size"] = str(random.choice((1, 8, 64)))
    if random.random() < 0.9:
        labels |= pool
    allocatable = {
        "cpu": random.choice(("0", "500m", "1", "2", "4", "7900m", "16")),
        "memory": random.choice(("0", "1Gi", "4Gi", "16Gi", "1000Mi")),
        GPU: random.choice(("0", "1", "2", "4", "8")),
        "pods": random.choice(("1", "3", "10", "110", "110")),
    }
    if random.random() < 0.1:
        del allocatable[random.choice(list(allocatable))]
    node: Json = {"name": name, "labels": labels, "allocatable": allocatable, "ready": "True"}
    if random.random() < 0.12:
        effect = random.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        node["taints"] = [{"key": random.choice(("maintenance", "gpu")), "value": "yes", "effect": effect}]
    if random.random() < 0.05:
        node["ready"] = random.choice(("False", "Unknown"))
    if random.random() < 0.05:
        node["unschedulable"] = True
    return node


def _foreign_pod(random: Random, number: int, nodes: list[Json]) -> Json:
    requests = {"cpu": random.choice(("100m", "1", "3"))}
    if random.random() < 0.5:
        requests |= {GPU: random.choice(("1", "2")), "memory": "1Gi"}
    return {
        "name": f"foreign-{number}",
        "namespace": "kube-system",
        "node": random.choice(nodes)["name"] if random.random() < 0.95 else "gone",
        "phase": random.choice(("Running", "Running", "Pending", "Succeeded", "Failed")),
        "containers": [{"requests": requests}],
    }


def _usage(random: Random, levels: list[str], nodes: list[Json]) -> Json:
    labels = random.choice(nodes)["labels"]
    shown = levels[-1:] if levels[-1] == HOSTNAME else levels
    values = [labels.get(level, "gone") for level in shown]
    return {"values": values, "singlePodRequests": _requests(random), "count": random.randint(1, 3)}


def _requests(random: Random) -> dict[str, int]:
    asked = random.choice(
        ({"cpu": 1000}, {GPU: 1}, {GPU: 2, "cpu": 500}, {"cpu": 250, "memory": MEMORY}, {GPU: 1, "cpu": 0}, {GPU: 4})
    )
    return dict(asked)


def leaves_of(case: Json) -> list[Json]:
    """What is left in each domain of the lowest level: ready nodes of the flavor, minus foreign
    pods, minus what runs.
    """
    levels = case["topology"]["levels"]
    pool = case["flavor"].get("nodeLabels") or {}
    by_host = levels[-1] == HOSTNAME
    leaves: dict[str, Json] = {}
    leaf_of_node: dict[str, Json] = {}
    for node in case["nodes"]:
        labels = node["labels"]
        if node.get("ready", "True") != "True" or node.get("unschedulable"):
            continue
        if any(labels.get(key) != value for key, value in pool.items()) or any(level not in labels for level in levels):
            continue
        values = [labels[level] for level in levels]
        key = values[-1] if by_host else ",".join(values)
        leaf = leaves.setdefault(key, {"id": key, "levelValues": values, "remaining": {}})
        _add(leaf, {name: _canonical(name, amount) for name, amount in node["allocatable"].items()}, 1)
        leaf_of_node[node["name"]] = leaf
    for pod in case.get("nonTASPods") or []:
        if pod["node"] in leaf_of_node and pod["phase"] not in ("Succeeded", "Failed"):
            for container in pod["containers"]:
                taken = {name: _canonical(name, amount) for name, amount in container["requests"].items()}
                _add(leaf_of_node[pod["node"]], taken, -1)
            _add(leaf_of_node[pod["node"]], {"pods": 1}, -1)
    for used in (case.get("priorUsage") or {}).get("own") or []:
        if (key := ",".join(used["values"])) in leaves:
            _add(leaves[key], {**used["singlePodRequests"], "pods": 1}, -used["count"])
    return list(leaves.values())


def _add(leaf: Json, amounts: dict[str, int], times: int) -> None:
    for name, amount in amounts.items():
        leaf["remaining"][name] = leaf["remaining"].get(name, 0) + times * amount


def _canonical(resource: str, written: str) -> int:
    units = {"m": 0.001, "Gi": 2**30, "Mi": 2**20}
    unit = next((unit for unit in units if written.endswith(unit)), "")
    amount = float(written.removesuffix(unit)) * units.get(unit, 1)
    return round(amount * 1000) if resource == "cpu" else round(amount)


# -- the workload -----------------------------------------------------------------------------------------------------


def _pod_sets(random: Random, case: Json) -> list[Json]:
    if random.random() < 0.25:
        workers = _pod_set(random, case, "workers")
        leader: Json = {
            **_pod_set(random, case, "leader"),
            "count": 1,
            "topologyRequest": workers.get("topologyRequest"),
        }
        leader["implied"] = workers["implied"]
        for each in (workers, leader):
            each["podSetGroupName"] = "group"
        return random.choice(([workers, leader], [leader, workers]))
    return [_pod_set(random, case, f"set-{number}") for number in range(random.choice((1, 1, 1, 1, 2, 3)))]


def _pod_set(random: Random, case: Json, name: str) -> Json:
    levels = case["topology"]["levels"]
    request = _topology_request(random, levels)
    pod_set: Json = {
        "name": name,
        "requests": _requests(random),
        "topologyRequest": request,
        "implied": request is None,
    }
    size = _slice_size(pod_set)
    count = random.choice((1, 2, 3, 4, 6, 8, 12, 24))
    pod_set["count"] = max(1, count // size) * size if random.random() < 0.95 else count
    if random.random() < 0.15:
        equal = {"key": "gpu", "operator": "Equal", "value": random.choice(("yes", "no"))}
        pod_set["tolerations"] = [random.choice(({"key": "gpu", "operator": "Exists"}, equal))]
    if random.random() < 0.1:
        pod_set["nodeSelector"] = {"disk": random.choice(("ssd", "hdd"))}
    if random.random() < 0.2:
        pod_set["nodeAffinity"] = _affinity(random)
    return pod_set


def _slice_size(pod_set: Json) -> int:
    request = pod_set.get("topologyRequest") or {}
    layers = request.get("podsetSliceRequiredTopologyConstraints")
    return int(layers[0]["size"] if layers else request.get("podSetSliceSize") or 1)


def _topology_request(random: Random, levels: list[str]) -> Json | None:
    kind = random.choice(("required", "required", "preferred", "preferred", "unconstrained", "implied", "slices"))
    if kind == "implied":
        return None
    request: Json = {}
    top = random.randrange(len(levels))
    if kind == "unconstrained":
        return {"unconstrained": True}
    if kind != "slices":
        request[kind] = levels[top] if random.random() < 0.98 else "cloud/unknown"
    if kind == "slices" or random.random() < 0.35:
        # Now and then a level above the pod set's own, which is refused.
        lowest = top if kind != "slices" and random.random() < 0.95 else 0
        chosen = sorted(
            random.sample(range(lowest, len(levels)), random.randint(1, min(3, len(levels) - lowest))),
        )
        sizes = [random.choice((1, 2, 3, 4))]
        for _ in chosen[1:]:
            sizes.insert(0, sizes[0] * random.choice((1, 2, 3)))
        if len(chosen) == 1 and random.random() < 0.6:
            request |= {"podSetSliceRequiredTopology": levels[chosen[0]], "podSetSliceSize": sizes[0]}
        else:
            request["podsetSliceRequiredTopologyConstraints"] = [
                {"topology": levels[level], "size": size} for level, size in zip(chosen, sizes, strict=True)
            ]
    return request


def _affinity(random: Random) -> Json:
    terms = (
        {"key": "disk", "operator": "In", "values": ["ssd"]},
        {"key": "disk", "operator": "NotIn", "values": ["hdd", "tape"]},
        {"key": "size", "operator": "Gt", "values": ["4"]},
        {"key": "gpu", "operator": "DoesNotExist"},
        {"key": LEVELS[-1], "operator": "Exists"},
    )
    affinity: Json = {}
    if random.random() < 0.5:
        chosen = [{"matchExpressions": random.sample(terms, random.randint(1, 2))} for _ in range(random.randint(1, 2))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": chosen}
    if random.random() < 0.7:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": random.choice((1, 10, 100)), "preference": {"matchExpressions": [term]}}
            for term in random.sample(terms, random.randint(1, 2))
        ]
    return affinity


# -- where bayplan differs on purpose ---------------------------------------------------------------------------------


def documented(case: Json) -> str | None:
    """Workloads that Kueue's webhooks refuse."""
    if any(each["count"] % _slice_size(each) for each in case["podSets"]):
        return "a count that is no multiple of the slice size: refused, as Kueue's webhook does"
    return None


FAMILIES = (
    Family("kueue", "assignment", "assign", draw_assignment, assignment_problem, derive, documented, "0.19.2"),
    Family("kueue", "replacement", "assign", draw_replacement, assignment_problem, derive, documented, "0.19.2"),
    Family("kueue", "elastic", "assign", draw_elastic, assignment_problem, derive, documented, "0.19.2"),
)
