"""Whatever stands in a dump, bayplan answers or says which object and field is wrong; it never falls over.

A small valid cluster is drawn, then spoiled at a few random places: values of wrong types, absurd quantities, fields
left out, list entries twice. The result goes the whole way: file, wire structs, columns, verdicts, decisions, remedies.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bayplan.cluster.loading import load_state
from bayplan.cluster.state import ClusterState
from bayplan.kube.errors import InvalidObject
from bayplan.kube.files import read_objects
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume as assume_decision
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.scheduling.remedies import remedies

Json = Any
Place = tuple[str | int, ...]

PROFILES = [
    default_profile(topology_match(read_arguments(arguments)))
    for arguments in (
        {},
        {"filterMode": "Upstream", "scoringStrategy": {"type": "BalancedAllocation"}},
        {"scoringStrategy": {"type": "LeastNUMANodes"}, "assume": {"memoryGroups": "Strict"}},
    )
]

# -- a small cluster in good order ------------------------------------------------------------------------------------

CPUS = st.sampled_from([0, 1, 2, "2", "500m", 4, "6"])
MEMORY = st.sampled_from(["0", "1Gi", "4Gi", "512Mi", 2**31])
DEVICES = st.sampled_from([0, 1, "2"])
GPU = "example.com/gpu"
NAMES = st.sampled_from(["a", "b", "c"])
# With cpu, memory, pods and the two above, more than the 8 and the 16 names for which columns have room at first.
MANY_DEVICES = st.integers(0, 14).map(lambda count: {f"example.com/d{number}": 1 for number in range(count)})


def some_of(**strategies: st.SearchStrategy[Json]) -> st.SearchStrategy[dict[str, Json]]:
    return st.fixed_dictionaries({}, optional={name.replace("__", "/"): each for name, each in strategies.items()})


USUAL_AMOUNTS = st.fixed_dictionaries({"cpu": CPUS, "memory": MEMORY}, optional={GPU: DEVICES, "hugepages-2Mi": MEMORY})
AMOUNTS = st.one_of(USUAL_AMOUNTS, st.builds(dict.__or__, USUAL_AMOUNTS, MANY_DEVICES))
EXPRESSION = st.fixed_dictionaries(
    {"key": st.just("disk"), "operator": st.sampled_from(["In", "NotIn", "Exists", "Gt", "DoesNotExist"])},
    optional={"values": st.lists(st.sampled_from(["ssd", "5", "x"]), max_size=2)},
)
TERM = some_of(matchExpressions=st.lists(EXPRESSION, min_size=1, max_size=2))
POD_SELECTOR = some_of(
    matchLabels=st.just({"app": "web"}),
    matchExpressions=st.just(
        [{"key": "app", "operator": "NotIn", "values": ["db"]}, {"key": "tier", "operator": "Exists"}]
    ),
)
POD_TERM = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["disk", "kubernetes.io/hostname"]), "labelSelector": POD_SELECTOR},
    optional={
        "namespaces": st.just(["default"]),
        "namespaceSelector": POD_SELECTOR,
        "matchLabelKeys": st.just(["app"]),
    },
)
POD_AFFINITY = some_of(
    requiredDuringSchedulingIgnoredDuringExecution=st.lists(POD_TERM, max_size=2),
    preferredDuringSchedulingIgnoredDuringExecution=st.lists(
        st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": POD_TERM}), max_size=2
    ),
)
SPREAD = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 3),
        "topologyKey": st.sampled_from(["disk", "kubernetes.io/hostname"]),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": POD_SELECTOR,
    },
    optional={"nodeTaintsPolicy": st.just("Honor"), "nodeAffinityPolicy": st.just("Ignore")},
)
AFFINITY = some_of(
    nodeAffinity=some_of(
        requiredDuringSchedulingIgnoredDuringExecution=st.fixed_dictionaries({"nodeSelectorTerms": st.lists(TERM)}),
        preferredDuringSchedulingIgnoredDuringExecution=st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": TERM}), max_size=2
        ),
    ),
    podAffinity=POD_AFFINITY,
    podAntiAffinity=POD_AFFINITY,
)


@st.composite
def containers(draw: st.DrawFn) -> Json:
    amounts = draw(AMOUNTS)
    limits = amounts if draw(st.booleans()) else {"memory": "4Gi"}
    return {
        "name": draw(st.sampled_from(["main", "helper", "third"])),
        "resources": {"requests": amounts, "limits": limits},
        **draw(
            some_of(
                restartPolicy=st.just("Always"),
                ports=st.just([{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}]),
            )
        ),
    }


POD_SPEC = st.fixed_dictionaries(
    {"containers": st.lists(containers(), min_size=1, max_size=3)},
    optional={
        "initContainers": st.lists(containers(), max_size=2),
        "nodeName": NAMES,
        "nodeSelector": st.just({"disk": "ssd"}),
        "affinity": AFFINITY,
        "topologySpreadConstraints": st.lists(SPREAD, max_size=1),
        "tolerations": st.just([{"key": "gpu", "operator": "Exists"}]),
        "overhead": st.just({"cpu": "100m"}),
        "resources": st.just({"requests": {"cpu": 2}, "limits": {"cpu": 2}}),
        "schedulingGates": st.just([{"name": "quota"}]),
    },
)
NODE_PART = st.fixed_dictionaries(
    {
        "status": st.fixed_dictionaries(
            {"allocatable": st.just({"cpu": 16, "memory": "32Gi", "pods": 110, GPU: 2, "hugepages-2Mi": "4Gi"})}
        )
    },
    optional={
        "spec": some_of(
            unschedulable=st.booleans(),
            taints=st.just([{"key": "gpu", "effect": "NoSchedule"}, {"key": "old", "effect": "PreferNoSchedule"}]),
        )
    },
)
ATTRIBUTES = st.fixed_dictionaries(
    {"topologyManagerPolicy": st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])},
    optional={
        "topologyManagerScope": st.sampled_from(["container", "pod"]),
        "topologyManagerMaxNUMANodes": st.sampled_from(["8", "2", "1024"]),
        "topologyManagerOptionPreferClosestNumaNodes": st.just("true"),
        "cpuManagerPolicy": st.sampled_from(["none", "static"]),
        "memoryManagerPolicy": st.sampled_from(["None", "Static"]),
        "cpuManagerPolicyOptions": st.just("full-pcpus-only=true"),
    },
).map(lambda chosen: [{"name": name, "value": value} for name, value in chosen.items()])


@st.composite
def zones(draw: st.DrawFn) -> Json:
    numbers = draw(st.lists(st.integers(0, 12), min_size=0, max_size=4, unique=True))
    # The forms before `available` existed show no use.
    fields = draw(st.sampled_from([("capacity", "allocatable", "available"), ("capacity", "allocatable")]))
    return [
        {
            "name": f"node-{number}",
            "type": "Node",
            "costs": [{"name": f"node-{other}", "value": 10 if other == number else 20} for other in numbers],
            "resources": [{"name": name, **dict.fromkeys(fields, amount)} for name, amount in draw(AMOUNTS).items()],
            **draw(some_of(attributes=st.just([{"name": "bayplan.io/memory-group", "value": "0,1"}]))),
        }
        for number in numbers
    ]


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    """Objects of a dump: nodes with and without reports, reports without nodes, pods bound and waiting."""
    objects: list[Json] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"disk": "ssd"}}, **draw(NODE_PART)}
        for name in draw(st.lists(NAMES, max_size=3, unique=True))
    ]
    objects += [
        {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": name},
            "attributes": draw(ATTRIBUTES),
            "zones": draw(zones()),
        }
        for name in draw(st.lists(NAMES, max_size=3, unique=True))
    ]
    objects += [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number}", "namespace": "default"},
            "spec": draw(POD_SPEC),
        }
        for number in range(draw(st.integers(1, 3)))
    ]
    return objects


# -- and how it is spoiled
# ----------------------------------------------------------------------------------------------

JUNK = st.one_of(
    st.sampled_from(
        ["-1", "-4Gi", "1e3", "1e30", "9Ei", "1.5x", "", " ", "\u00b2", "node-0", "node-63", "node-64", "Node"]
    ),
    st.sampled_from([-1, 0, 1.5, 2**31, 2**53, 2**64, 10**40, 1e300, True, None]),
    st.text(max_size=4),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    ),
)


def places(value: Json, here: Place = ()) -> Iterator[Place]:
    """Every place below a value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*here, key)
        yield from places(inner, (*here, key))


def unshared(objects: list[Json]) -> list[Json]:
    """A copy in which no two places are the same Python object: spoiling one must not spoil the other."""
    copied: list[Json] = msgspec.json.decode(msgspec.json.encode(objects))
    return copied


def inside(value: Json, place: Place) -> Json:
    for key in place:
        value = value[key]
    return value


@st.composite
def spoiled(draw: st.DrawFn) -> list[Json]:
    objects = unshared(draw(clusters()))
    for _ in range(draw(st.integers(0, 3))):
        found = [place for place in places(objects) if len(place) > 1]
        if not found:
            break
        *above, last = draw(st.sampled_from(found))
        holder = inside(objects, tuple(above))
        match draw(st.sampled_from(["replace", "replace", "remove", "repeat"])):
            case "replace":
                holder[last] = draw(JUNK)
            case "remove":
                del holder[last]
            case "repeat" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[int(last)]))
    return objects


# -- the whole way
# --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dumps")


def state_from(objects: list[Json], folder: Path) -> ClusterState:
    file = folder / "dump.json"
    file.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": objects}))
    return load_state(read_objects(file))


def problems_of(objects: list[Json], folder: Path) -> list[str]:
    """What is said about every amount of every object, also of pods whose node is unknown."""
    state = state_from(objects, folder)
    found = read_objects(folder / "dump.json")
    problems = [*map(str, found.left_out), *map(str, state.remarks)]
    for pod in found.pods:
        try:
            state.classes.of(pod)
        except InvalidObject as error:
            problems.append(str(error))
    return problems


def check_decisions(state: ClusterState, profile: Profile) -> None:
    answers = ClassAnswers(state)
    for pod in list(state.waiting.values()):
        decision = schedule_one(state, pod, profile, answers)
        if decision.node is not None:
            assert decision.node in state.rows
            assume_decision(state, decision, pod)
            assert (state.columns.zone_available >= 0).all()
        elif decision.shortfall is not None:
            refused = list(itertools.chain.from_iterable(cause.nodes for cause in decision.shortfall.causes))
            assert sorted(refused) == sorted(state.rows)
            pod_class = state.classes.of(pod)
            remedies(state, pod_class, profile, answers.for_class(pod_class, profile))
        else:
            assert decision.held_back
        answer = answers.for_class(state.classes.of(pod), profile)
        passing = answer.blocked == 0
        passing[list(answer.refused_by_replay)] = False
        assert np.all(answer.total_score[passing] >= 0)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(objects=spoiled())
def test_every_dump_is_answered_or_refused_by_name(objects: list[Json], folder: Path) -> None:
    refusal = ""
    try:
        for profile in PROFILES:
            check_decisions(state_from(objects, folder), profile)
    except InvalidObject as error:
        refusal = str(error)
    assert not refusal or re.match(r"(Node|Pod|NodeResourceTopology|object|file) \S+.*: .+", refusal)


AMOUNT_FIELDS = {"requests", "limits", "overhead", "allocatable", "capacity", "available"}


def amount_places(objects: list[Json]) -> list[Place]:
    """Where quantities stand: values of resource lists, and the three amounts of a zone's resource."""
    found = []
    for place in places(objects):
        value = inside(objects, place)
        in_a_list = len(place) > 1 and place[-2] in AMOUNT_FIELDS
        if not isinstance(value, dict | list) and (in_a_list or place[-1] in AMOUNT_FIELDS):
            found.append(place)
    return found


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    data=st.data(), objects=clusters(), wrong=st.sampled_from(["-1", -1, "-1Gi", "2Gb", "9Ei", 10**30, "1e99", True])
)
def test_no_amount_is_ever_read_as_something_else(
    data: st.DataObject, objects: list[Json], wrong: Json, folder: Path
) -> None:
    """The object of a negative, unreadable or absurd amount is left out, with the field and the text in the message."""
    found = amount_places(objects)
    assume(found)
    *above, last = data.draw(st.sampled_from(found))
    objects = unshared(objects)
    inside(objects, tuple(above))[last] = wrong
    name = objects[int(above[0])]["metadata"]["name"]
    told = [each for each in problems_of(objects, folder) if name in each and str(last) in each]
    assert any(wrong is True or str(wrong) in each for each in told)


def test_an_empty_cluster_refuses_without_a_cause(folder: Path) -> None:
    state = state_from([{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}], folder)
    (waiting,) = state.waiting.values()
    decision = schedule_one(state, waiting, PROFILES[0], ClassAnswers(state))
    assert decision.shortfall is not None
    assert (decision.shortfall.nodes, decision.shortfall.causes) == (0, ())
