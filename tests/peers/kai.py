"""Clusters and jobs for KAI-Scheduler's allocate action, in the form of its recordings.

One to three levels whose values repeat under different parents, nodes without a label, full and empty ones, pods that
run or leave; jobs with sub-groups in up to three storeys, required and preferred levels at each, pods of one size and
of several, more pods than the minimum, queues with limits. KAI runs without its predicates, which ask an API server:
tasks have no selectors and no affinity, and there is room for all pods.
"""

from __future__ import annotations

from random import Random

from tests.conformance.test_kai import run_problem
from tests.peers.asking import Json
from tests.peers.family import Family

GPU = "nvidia.com/gpu"
GIGABYTE = 1_000_000_000
LEVELS = ("k8s.io/zone", "k8s.io/block", "k8s.io/rack")
HOSTNAME = "kubernetes.io/hostname"
VALUES = ("r1", "r2", "r3", "r10")

Paths = list[list[str | None]]
"""Of each node, its values of the levels, the widest first."""


def draw_allocate(random: Random, _version: str) -> Json:
    """A cluster with jobs that run, and one to three that wait."""
    levels = [*LEVELS[-random.randint(1, 3) :], *([HOSTNAME] if random.random() < 0.3 else [])]
    values = VALUES[: random.choice((2, 2, 3, 4))]
    nodes = [_node(random, f"node{number}", levels, values) for number in range(random.choice((2, 3, 5, 8, 12, 20)))]
    case: Json = {
        "actions": ["allocate"],
        "roundsUntilMatch": 1,
        "topologies": [{"name": "cluster-topology", "levels": levels}],
        "queues": [{"Name": "queue0", "ParentQueue": "department0", **_limits(random)}],
        "departments": [{"Name": "department0", "DeservedGPUs": 10_000}],
        "nodes": nodes,
        "jobs": [*_running(random, nodes), *_waiting(random, levels)],
    }
    return derive(case)


def derive(case: Json) -> Json:
    """What each node has idle, and what is held by pods that leave."""
    nodes = []
    for node in case["nodes"]:
        idle, releasing = dict(node["allocatable"]), dict.fromkeys(node["allocatable"], 0)
        for task in (task for job in case["jobs"] for task in job["tasks"]):
            if task.get("node") == node["name"]:
                for name, amount in task["requests"].items():
                    idle[name] -= amount
                    releasing[name] += amount * (task["state"] == "Releasing")
        nodes.append({**node, "idle": idle, "releasing": releasing})
    return {**case, "nodes": nodes}


def _limits(random: Random) -> Json:
    if random.random() < 0.85:
        return {"DeservedGPUs": 1000, "GPUOverQuotaWeight": 1}
    return {"DeservedGPUs": random.choice((2, 4, 8)), "MaxAllowedGPUs": random.choice((4, 8)), "GPUOverQuotaWeight": 1}


def _node(random: Random, name: str, levels: list[str], values: tuple[str, ...]) -> Json:
    labels = {level: random.choice(values) for level in levels if level != HOSTNAME and random.random() < 0.97}
    labels[HOSTNAME] = name
    labels["kai.scheduler/type"] = name
    allocatable = {
        "cpu": random.choice((4, 16, 64)),
        "memory": random.choice((16, 64)) * GIGABYTE,
        GPU: random.choice((0, 1, 2, 4, 4, 8)),
        "pods": 110,
    }
    return {"name": name, "labels": labels, "allocatable": allocatable}


def _running(random: Random, nodes: list[Json]) -> list[Json]:
    jobs = []
    free = {node["name"]: dict(node["allocatable"]) for node in nodes}
    for number in range(random.choice((0, 0, 1, 3, 6))):
        node = random.choice(nodes)["name"]
        requests = {"cpu": 1, "memory": GIGABYTE, GPU: random.choice((0, 1, 1, 2)), "pods": 1}
        if any(free[node][name] < amount for name, amount in requests.items()):
            continue
        free[node] = {name: left - requests[name] for name, left in free[node].items()}
        state = random.choice(("Running", "Running", "Running", "Releasing"))
        task = {"name": f"running{number}-0", "subGroup": "default", "state": state, "requests": requests, "node": node}
        tree = {"name": "", "podSets": [{"name": "default", "minAvailable": 1}]}
        jobs.append(
            {"name": f"running{number}", "queue": "queue0", "priority": 50, "rootSubGroupSet": tree, "tasks": [task]}
        )
    return jobs


def _waiting(random: Random, levels: list[str]) -> list[Json]:
    return [_job(random, f"pending{number}", levels) for number in range(random.choice((1, 1, 1, 2, 3)))]


def _job(random: Random, name: str, levels: list[str]) -> Json:
    tasks: list[Json] = []
    sizes = random.sample((1, 1, 2, 4), random.choice((1, 1, 1, 2)))
    mixed = random.random() < 0.15

    def pod_set(label: str) -> Json:
        pods = random.choice((1, 2, 2, 3, 4, 6, 9))
        size = random.choice(sizes)
        for _ in range(pods):
            gpus = random.choice((1, 2, 4)) if mixed else size
            if random.random() < 0.02:
                gpus = 0
            requests = {"cpu": 1, "memory": GIGABYTE, GPU: gpus, "pods": 1}
            tasks.append({"name": f"{name}-{len(tasks)}", "subGroup": label, "state": "Pending", "requests": requests})
        least = pods if random.random() < 0.8 else random.randint(1, pods)
        return {"name": label, "minAvailable": least, **_constraint(random, levels)}

    def tree(label: str, depth: int) -> Json:
        found: Json = {"name": label, **_constraint(random, levels)}
        if depth:  # KAI has sub-groups or pods in a group, never both
            found["subGroups"] = [
                tree(f"{label}g{each}", random.randint(0, depth - 1)) for each in range(random.randint(1, 2))
            ]
        else:
            found["podSets"] = [pod_set(f"{label}p{each}") for each in range(random.choice((1, 1, 2)))]
        return found

    if random.random() < 0.5:
        root: Json = {
            "name": "",
            **_constraint(random, levels, 0.9),
            "podSets": [{**pod_set("default"), "topologyConstraint": None}],
        }
    else:
        root = {**tree("", random.choice((0, 1, 1, 2))), "name": ""}
    priority = random.choice((50, 50, 50, 60, 100))
    return {"name": name, "queue": "queue0", "priority": priority, "rootSubGroupSet": root, "tasks": tasks}


def _constraint(random: Random, levels: list[str], chance: float = 0.5) -> Json:
    if random.random() > chance:
        return {}
    kind = random.choice(("required", "required", "preferred", "both"))
    found: Json = {"topology": "cluster-topology"}
    required = random.randrange(len(levels))
    if kind in ("required", "both"):
        found["required"] = levels[required]
    if kind == "preferred":
        found["preferred"] = random.choice(levels)
    if kind == "both" and required + 1 < len(levels):  # 0.12 does not know what to do with the same level twice
        found["preferred"] = levels[random.randint(required + 1, len(levels) - 1)]
    return {"topologyConstraint": found}


def allocate_problem(case: Json) -> str | None:
    """Status and node of each task that waited."""
    waiting = {task["name"] for job in case["jobs"] for task in job["tasks"] if task["state"] == "Pending"}
    tasks = {name: placed for name, placed in case["expected"]["tasks"].items() if name in waiting}
    return run_problem({**case, "expected": {"tasks": tasks}})


def documented(case: Json) -> str | None:
    """bayplan's style follows later versions, which look for a preferred level that is wider
    than the domain at hand.
    """
    refusals = [text for texts in case["refused"].values() for text in texts]
    levels = case["topologies"][0]["levels"]
    trees = [job["rootSubGroupSet"] for job in case["jobs"] if job["name"] in case["refused"]]
    paths = [path for node in case["nodes"] if None not in (path := [node["labels"].get(level) for level in levels])]
    wide = any("requirement  couldn't be satisfied" in text for text in refusals)
    if wide or any(_prefers_wider_than_around(tree, levels, paths, -1) for tree in trees):
        return "0.12 finds no place where the preferred level is wider than the domain at hand; fixed later"
    return None


def _common_level(paths: Paths) -> int:
    """The narrowest level of which all nodes share a domain; -1 if there is none."""
    depths = range(len(paths[0]) if paths else 0)
    return max((depth for depth in depths if len({str(path[: depth + 1]) for path in paths}) == 1), default=-1)


def _prefers_wider_than_around(group: Json, levels: list[str], paths: Paths, around: int) -> bool:
    """Whether some group prefers a level no narrower than that of a group around it, or than its nodes' domain."""
    around = max(around, _common_level(paths))
    asked = group.get("topologyConstraint") or {}
    if "preferred" in asked and levels.index(asked["preferred"]) <= around:
        return True
    depths = [levels.index(asked[kind]) for kind in ("required", "preferred") if kind in asked]
    chosen = [paths, *(domain for depth in depths for domain in _domains(paths, depth))]
    inner = [*group.get("subGroups", ()), *group.get("podSets", ())]
    own = max([around, *depths])
    return any(_prefers_wider_than_around(each, levels, domain, own) for each in inner for domain in chosen)


def _domains(paths: Paths, depth: int) -> list[Paths]:
    """The nodes of each domain of a level."""
    found: dict[str, Paths] = {}
    for path in paths:
        found.setdefault(str(path[: depth + 1]), []).append(path)
    return list(found.values())


FAMILIES = (
    Family("kai", "allocate", "allocate", draw_allocate, allocate_problem, derive=derive, documented=documented),
)
