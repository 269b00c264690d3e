"""Random pods as users submit them: half of them fine, often unusual; the others spoiled in one or two places.

In: a seeded generator. Out: the text of a JSON document, since a document may hold a key twice, and what was done to
it. Whether a spoiled pod is still valid is for an API server to say; `tests/kubernetes/test_strict_pods.py` asks one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

Json = dict[str, Any]
Place = tuple[Any, Any]

RUNTIME_CLASS = "plain"
"""The RuntimeClass that has to exist where such pods are created."""


class RandomPod(NamedTuple):
    """A document, and how it was made."""

    text: str
    made: str


class Twice(dict[str, Any]):
    """A mapping of which one key is written twice."""

    repeated: str = ""


def random_pod(draw: Random) -> RandomPod:
    """A pod with a few features, in about half of the cases spoiled."""
    pod = _plain_pod(draw)
    made = []
    for feature in draw.sample(FEATURES, draw.randint(0, 5)):
        feature(draw, pod)
        made.append(feature.__name__.strip("_"))
    risky = draw.random() < 0.3
    if risky:
        feature = draw.choice(RISKY)
        feature(draw, pod)
        made.append(f"?{feature.__name__.strip('_')}")
    for _ in range(draw.choice((0, 0, 0, 0, 0, 1) if risky else (0, 0, 0, 0, 1, 1, 1, 2))):
        fault = draw.choice(FAULTS)
        made.append(f"!{fault.__name__.strip('_')}: {fault(draw, pod)}")
    # The API server takes these from the address of a request; kubectl and bayplan have nothing but the file.
    pod["apiVersion"] = pod.get("apiVersion") or "v1"
    pod["kind"] = pod.get("kind") or "Pod"
    return RandomPod(_text(pod), ", ".join(made))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        pairs = [f"{json.dumps(key)}: {_text(each)}" for key, each in value.items()]
        if isinstance(value, Twice) and value.repeated in value:
            pairs.append(f"{json.dumps(value.repeated)}: {_text(value[value.repeated])}")
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return json.dumps(value)


# ---- what is fine ----------------------------------------------------------------------------------------------------


def _plain_pod(draw: Random) -> Json:
    containers = [_container(draw, f"c{number}") for number in range(draw.choice((1, 1, 1, 2, 3)))]
    metadata: Json = {"name": draw.choice(("web", "upf-0", "a.b.c", "x" * 63, "train-17"))}
    if draw.random() < 0.5:
        metadata["labels"] = {"app": "web", "example.com/tier": draw.choice(("", "front", "A_b.c-9"))}
    if draw.random() < 0.3:
        metadata["annotations"] = {
            "Example.com/Note": "any text {} \u00e9",
            "controller.kubernetes.io/pod-deletion-cost": "-7",
        }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def _container(draw: Random, name: str) -> Json:
    container: Json = {"name": name, "image": draw.choice(("nginx", "registry.example/app:1.2", "a@sha256:00"))}
    if draw.random() < 0.6:
        container["resources"] = _resources(draw)
    if draw.random() < 0.2:
        container["command"] = ["sleep", "1"]
    return container


def _resources(draw: Random) -> Json:
    limits: Json = {
        "cpu": draw.choice((4, "4", "4000m", 4.5, "8e0")),
        "memory": draw.choice(("8Gi", "8589934592", "9G", "1e10")),
    }
    requests: Json = {
        "cpu": draw.choice(("500m", 1, 0.25, "1.5", "0")),
        "memory": draw.choice(("1Gi", 1024, "0.5Gi", "128974848")),
    }
    match draw.randrange(5):
        case 0:
            return {"limits": limits}
        case 1:
            return {"requests": requests}
        case 2:
            devices = {"nvidia.com/gpu": draw.choice((1, "2", "1000m"))}
            return {
                "limits": {**limits, **devices},
                "requests": {**requests, **(devices if draw.random() < 0.5 else {})},
            }
        case 3:
            pages = {draw.choice(("hugepages-2Mi", "hugepages-1Gi")): "2Gi"}
            return {"limits": {**limits, **pages}, "requests": {**requests, **pages}}
    return {"limits": limits, "requests": {**requests, "ephemeral-storage": "1Gi"}}


def _spec(pod: Json) -> Json:
    spec: Json = pod["spec"]
    return spec


def _first(pod: Json) -> Json:
    containers: list[Json] = _spec(pod)["containers"]
    return containers[0]


def _init_container(draw: Random, pod: Json) -> None:
    container = _container(draw, "setup")
    if draw.random() < 0.5:
        container["restartPolicy"] = draw.choice(("Always", "Always", "OnFailure", "Never"))
        if container["restartPolicy"] == "Always":
            container["readinessProbe"] = {"exec": {"command": ["true"]}}
    _spec(pod)["initContainers"] = [container]


def _ports(draw: Random, pod: Json) -> None:
    _first(pod)["ports"] = [
        {"containerPort": 80, "name": "http"},
        {
            "containerPort": draw.choice((443, 65535, 1)),
            "protocol": draw.choice(("TCP", "UDP", "SCTP")),
            "hostPort": 8443,
        },
        {"containerPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1", "hostPort": 53},
    ]


def _probes(draw: Random, pod: Json) -> None:
    handlers: list[Json] = [
        {
            "httpGet": {
                "path": "/healthz",
                "port": draw.choice((8080, "http")),
                "httpHeaders": [{"name": "X-A", "value": "b"}],
            }
        },
        {"tcpSocket": {"port": 22}},
        {"exec": {"command": ["true"]}},
        {"grpc": {"port": 5000}},
    ]
    _first(pod)["livenessProbe"] = {**draw.choice(handlers), "periodSeconds": 5, "terminationGracePeriodSeconds": 3}
    _first(pod)["readinessProbe"] = {**draw.choice(handlers), "successThreshold": 3}
    _first(pod)["startupProbe"] = {**draw.choice(handlers), "failureThreshold": 30}


def _lifecycle(draw: Random, pod: Json) -> None:
    hook = draw.choice(({"sleep": {"seconds": 5}}, {"exec": {"command": ["a"]}}, {"httpGet": {"port": 80}}))
    _first(pod)["lifecycle"] = {draw.choice(("preStop", "postStart")): hook}


def _variables(draw: Random, pod: Json) -> None:
    _first(pod)["env"] = [
        {"name": "PLAIN", "value": "1"},
        {"name": draw.choice(("with.dot-1", "9starts", "a b")), "value": ""},
        {
            "name": "NODE",
            "valueFrom": {"fieldRef": {"fieldPath": draw.choice(("spec.nodeName", "metadata.labels['app']"))}},
        },
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    ]
    _first(pod)["envFrom"] = [{"prefix": "P_", "configMapRef": {"name": "cm"}}]


def _volumes(draw: Random, pod: Json) -> None:
    sources: list[Json] = [
        {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {},
        {"hostPath": {"path": "/dev", "type": "Directory"}},
        {"configMap": {"name": "cm", "defaultMode": 420, "items": [{"key": "k", "path": "a/b"}]}},
        {"secret": {"secretName": "s", "optional": True}},
        {"persistentVolumeClaim": {"claimName": "data"}},
        {"nfs": {"server": "nas", "path": "/x"}},
        {"csi": {"driver": "Disk.example.com", "volumeAttributes": {"a": "b"}}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}},
        {"image": {"reference": "data:1"}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": _claim_spec()}}},
        {"iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2016-09.com.example:disk", "lun": 2}},
        {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
        {"rbd": {"monitors": ["a:1"], "image": "i"}},
    ]
    chosen = draw.sample(sources, draw.randint(1, 4))
    _spec(pod)["volumes"] = [{"name": f"v{number}", **source} for number, source in enumerate(chosen)]
    _first(pod)["volumeMounts"] = [{"name": "v0", "mountPath": "/data", "subPath": "a", "readOnly": True}]


def _claim_spec() -> Json:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}


def _tolerations(draw: Random, pod: Json) -> None:
    _spec(pod)["tolerations"] = [
        {"operator": "Exists"},
        {"key": "example.com/gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": draw.choice((0, -1, 60))},
        {"key": "plain"},
    ]


def _node_affinity(draw: Random, pod: Json) -> None:
    _spec(pod)["nodeSelector"] = {"kubernetes.io/os": "linux", "zone": ""}
    expressions: list[Json] = [
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "gpu", "operator": draw.choice(("Exists", "DoesNotExist"))},
        {"key": "cores", "operator": draw.choice(("Gt", "Lt")), "values": ["8"]},
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["worker-3"]}]
    _affinity(pod)["nodeAffinity"] = {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}, {"matchFields": fields}]},
        PREFERRED: [{"weight": draw.choice((1, 100)), "preference": {"matchExpressions": expressions[:1]}}],
    }


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity(pod: Json) -> Json:
    affinity: Json = _spec(pod).get("affinity") or {}
    _spec(pod)["affinity"] = affinity
    return affinity


def _selector(draw: Random) -> Json:
    return draw.choice(
        (
            {"matchLabels": {"app": "web"}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db", ""]}]},
            {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            {},
        )
    )


def _pod_affinity(draw: Random, pod: Json) -> None:
    term: Json = {"topologyKey": "kubernetes.io/hostname", "labelSelector": _selector(draw)}
    if draw.random() < 0.4:
        term["matchLabelKeys"] = [draw.choice(("pod-template-hash", "example.com/tier"))]
    if draw.random() < 0.3:
        term |= {"namespaces": ["default"], "namespaceSelector": {}}
    weighted = [{"weight": 50, "podAffinityTerm": term}]
    _affinity(pod)[draw.choice(("podAffinity", "podAntiAffinity"))] = {REQUIRED: [term], PREFERRED: weighted}


def _spread(draw: Random, pod: Json) -> None:
    constraints: list[Json] = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": 2,
            "labelSelector": _selector(draw),
        },
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"},
    ]
    _spec(pod)["topologySpreadConstraints"] = constraints[: draw.randint(1, 2)]


def _security(draw: Random, pod: Json) -> None:
    _spec(pod)["securityContext"] = {
        "runAsUser": 1000,
        "fsGroup": 0,
        "supplementalGroups": [1, 2],
        "sysctls": [{"name": "net.core.somaxconn", "value": "1024"}],
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    _first(pod)["securityContext"] = {
        "privileged": draw.choice((True, False)),
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "seccompProfile": {"type": "Localhost", "localhostProfile": "p/a.json"},
        "readOnlyRootFilesystem": True,
    }


def _network(draw: Random, pod: Json) -> None:
    _spec(pod)["dnsPolicy"] = draw.choice(("None", "ClusterFirst", "Default"))
    _spec(pod)["dnsConfig"] = {
        "nameservers": ["10.0.0.1"],
        "searches": ["a_b.example.", "."],
        "options": [{"name": "ndots", "value": "2"}],
    }
    _spec(pod)["hostAliases"] = [{"ip": "2001:db8::1", "hostnames": ["a.b"]}]
    _spec(pod)["hostname"] = "h"
    _spec(pod)["subdomain"] = "s"


def _host(draw: Random, pod: Json) -> None:
    _spec(pod)[draw.choice(("hostNetwork", "hostPID", "hostIPC"))] = True


def _gates(draw: Random, pod: Json) -> None:
    _spec(pod)["schedulingGates"] = [{"name": "example.com/wait"}, {"name": "two"}]
    _spec(pod)["readinessGates"] = [{"conditionType": "www.example.com/ready"}]


def _settings(draw: Random, pod: Json) -> None:
    spec = _spec(pod)
    for field, value in draw.sample(
        (
            ("restartPolicy", "Never"),
            ("terminationGracePeriodSeconds", draw.choice((0, 30, 600))),
            ("activeDeadlineSeconds", 1),
            ("enableServiceLinks", False),
            ("shareProcessNamespace", True),
            ("schedulerName", "bayplan"),
            ("runtimeClassName", RUNTIME_CLASS),
            ("serviceAccountName", "robot"),
            ("automountServiceAccountToken", False),
            ("imagePullSecrets", [{"name": "pull"}]),
            ("setHostnameAsFQDN", None),
            ("os", {"name": "linux"}),
            ("nodeName", "worker-3"),
            ("hostUsers", draw.choice((True, False))),
            ("preemptionPolicy", "PreemptLowerPriority"),
            ("hostnameOverride", "my.host"),
        ),
        3,
    ):
        spec[field] = value


def _pod_level(draw: Random, pod: Json) -> None:
    _spec(pod)["resources"] = draw.choice(
        (
            {"requests": {"cpu": "64", "memory": "64Gi"}, "limits": {"cpu": "64", "memory": "64Gi"}},
            {"limits": {"cpu": "64", "memory": "64Gi", "hugepages-2Mi": "8Gi"}},
            {"requests": {"cpu": "64"}},
            {"limits": {"memory": "64Gi"}},
            {},
        )
    )


def _claims(draw: Random, pod: Json) -> None:
    _spec(pod)["resourceClaims"] = [
        {"name": "gpu", "resourceClaimTemplateName": "one-gpu"},
        {"name": "nic", "resourceClaimName": "shared"},
    ]
    _first(pod).setdefault("resources", {})["claims"] = [{"name": "gpu"}, {"name": "nic", "request": "r"}]


def _exported(draw: Random, pod: Json) -> None:
    pod["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False"}],
        "startTime": "2026-01-31T09:00:00Z",
    }
    pod["metadata"] |= {"creationTimestamp": "2026-01-31T09:00:00+01:00", "generation": 3, "uid": "u-1"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    pod["metadata"]["finalizers"] = ["example.com/keep"]


def _restart_rules(draw: Random, pod: Json) -> None:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    _first(pod).update(restartPolicy="Never", restartPolicyRules=rules)
    _first(pod)["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]


def _mounts(draw: Random, pod: Json) -> None:
    sources: list[Json] = [
        {"persistentVolumeClaim": {"claimName": "disk"}},
        {"emptyDir": {}},
        {"projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}]}},
        {"configMap": {"name": "c", "items": [{"key": "a", "path": draw.choice(("a", "..b", "a/../b", "/a"))}]}},
    ]
    _spec(pod)["volumes"] = [{"name": f"w{number}", **source} for number, source in enumerate(sources)]
    if draw.random() < 0.7:
        _spec(pod)["serviceAccountName"] = "robot"
    _first(pod)["volumeDevices"] = [{"name": draw.choice(("w0", "w0", "w1", "w9")), "devicePath": "/dev/xvda"}]
    mount: Json = {"name": draw.choice(("w1", "w1", "w0")), "mountPath": draw.choice(("/a", "relative", "/dev/xvda"))}
    mount[draw.choice(("subPathExpr", "subPath", "x-none"))] = draw.choice(("$(A)/b", "a"))
    mount.pop("x-none", None)
    if draw.random() < 0.4:
        mount["mountPropagation"] = draw.choice(("None", "HostToContainer", "Bidirectional"))
    if draw.random() < 0.4:
        mount |= {
            "readOnly": draw.choice((True, False)),
            "recursiveReadOnly": draw.choice(("Enabled", "IfPossible", "Disabled")),
        }
    _first(pod)["volumeMounts"] = [mount]


def _windows(draw: Random, pod: Json) -> None:
    options = {
        "runAsUserName": draw.choice(("User", "DOMAIN\\User", "a.b\\c", "..", "A\\B\\C")),
        "hostProcess": draw.choice((True, False)),
    }
    _spec(pod)["securityContext"] = {"windowsOptions": options}
    _spec(pod)["os"] = {"name": draw.choice(("windows", "windows", "linux"))}
    if draw.random() < 0.5:
        _spec(pod)["hostNetwork"] = True


def _sources_of_variables(draw: Random, pod: Json) -> None:
    sources: list[Json] = [
        {"fieldRef": {"apiVersion": draw.choice(("v1", "v2")), "fieldPath": "metadata.name"}},
        {
            "fieldRef": {
                "fieldPath": draw.choice(
                    ("metadata.annotations['a/b']", "spec.containers", "metadata.labels", "status.phase", "spec.host")
                )
            }
        },
        {
            "resourceFieldRef": {
                "resource": draw.choice(("limits.memory", "requests.hugepages-2Mi", "limits.gpu")),
                "divisor": draw.choice(("1Mi", "2Mi", "1m", 0)),
            }
        },
        {"configMapKeyRef": {"name": draw.choice(("cm", "CM", "")), "key": draw.choice(("a", "..", "a b"))}},
        {"fileKeyRef": {"volumeName": draw.choice(("v0", "w1")), "path": "f", "key": "K"}},
        {},
    ]
    variable: Json = {"name": "X", "valueFrom": draw.choice(sources)}
    if draw.random() < 0.2:
        variable["value"] = draw.choice(("", "both"))
    _first(pod)["env"] = [variable]


def _keys_of_selectors(draw: Random, pod: Json) -> None:
    pod["metadata"]["labels"] = {"app": "web", "hash": "1"}
    selector = draw.choice(
        (
            {"matchLabels": {"hash": "1"}},
            {"matchLabels": {"app": "web"}},
            {"matchExpressions": [{"key": "hash", "operator": "Exists"}]},
            None,
        )
    )
    keys = {"matchLabelKeys": ["hash"]} | (
        {"mismatchLabelKeys": [draw.choice(("hash", "app", "none"))]} if draw.random() < 0.5 else {}
    )
    term = {"topologyKey": draw.choice(("zone", "Zone/", "")), "labelSelector": selector, **keys}
    _affinity(pod)["podAntiAffinity"] = {REQUIRED: [term]}
    spread = {
        "maxSkew": draw.choice((1, 0)),
        "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }
    _spec(pod)["topologySpreadConstraints"] = [spread | {"matchLabelKeys": ["hash"]}]


def _small_pod_level(draw: Random, pod: Json) -> None:
    amounts = {"cpu": draw.choice(("1", "4", "9")), "memory": draw.choice(("1Gi", "8Gi", "20Gi"))}
    _spec(pod)["resources"] = {
        draw.choice(("limits", "requests")): amounts,
        **draw.choice(({}, {"requests": {"cpu": "2"}})),
    }


def _generated_name(draw: Random, pod: Json) -> None:
    pod["metadata"]["generateName"] = draw.choice(("web-", "web", "Web-", "a.-"))
    if draw.random() < 0.7:
        pod["metadata"].pop("name", None)


def _ephemeral_containers(draw: Random, pod: Json) -> None:
    _spec(pod)["ephemeralContainers"] = draw.choice(([], None, [{"name": "debug", "image": "busybox"}]))


def _nulls(draw: Random, pod: Json) -> None:
    _spec(pod)[
        draw.choice(("affinity", "nodeName", "tolerations", "securityContext", "nodeSelector", "hostNetwork"))
    ] = None


FEATURES: tuple[Callable[[Random, Json], None], ...] = (
    *(_init_container, _ports, _probes, _lifecycle, _variables, _volumes, _volumes, _tolerations, _node_affinity),
    *(_pod_affinity, _spread, _security, _network, _host, _gates, _settings, _settings, _pod_level, _claims),
    *(_exported, _restart_rules, _nulls),
)
# Combinations of which many are wrong: about every third pod has one.
RISKY: tuple[Callable[[Random, Json], None], ...] = (
    *(
        _mounts,
        _windows,
        _sources_of_variables,
        _keys_of_selectors,
        _small_pod_level,
        _generated_name,
        _ephemeral_containers,
    ),
)


# ---- what spoils it --------------------------------------------------------------------------------------------------


def _places(thing: Any) -> list[Place]:
    """Every key of every mapping and every entry of every list."""
    found: list[Place] = []
    pairs = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in pairs:
        found.append((thing, key))
        found += _places(value)
    return found


def _a_place(draw: Random, pod: Json, kind: type | tuple[type, ...] = object) -> Place | None:
    found = [
        (holder, key) for holder, key in _places(pod) if isinstance(holder[key], kind) and key not in NEVER_SPOILED
    ]
    return draw.choice(found) if found else None


# Its value decides which kind is asked, or in which namespace, not whether the pod is fine.
NEVER_SPOILED = ("kind", "namespace", "runtimeClassName", "priorityClassName", "serviceAccountName")


def _misspelt_field(draw: Random, pod: Json) -> str:
    holders = [(holder, key) for holder, key in _places(pod) if isinstance(holder, dict) and key not in NEVER_SPOILED]
    holder, key = draw.choice(holders)
    wrong = draw.choice(
        (key.lower(), key + "s", key[:-1], key[:1] + key[2:], key.upper(), key.replace("e", "ee", 1), "extra")
    )
    holder[wrong] = holder.pop(key)
    return f"{key} as {wrong}"


def _wrong_type(draw: Random, pod: Json) -> str:
    place = _a_place(draw, pod)
    if place is None:
        return ""
    holder, key = place
    holder[key] = draw.choice(([], {}, "text", "7", 7, 7.5, True, None, [1], {"a": "b"}, ["x"], -1, 2**40, 2**70))
    return f"{key} = {holder[key]!r}"


def _odd_text(draw: Random, pod: Json) -> str:
    place = _a_place(draw, pod, str)
    if place is None:
        return ""
    holder, key = place
    written = holder[key]
    odd = (
        written.upper(),
        f"{written}_",
        f"-{written}",
        written * 40,
        "",
        " ",
        f"{written} ",
        "a/b/c",
        "../x",
        "Nein",
        "/abs",
        "1.5",
        "a.b",
        "-1",
        "é",
    )
    holder[key] = draw.choice(odd)
    return f"{key} = {holder[key]!r}"


def _odd_number(draw: Random, pod: Json) -> str:
    place = _a_place(draw, pod, (int, float))
    if place is None:
        return ""
    holder, key = place
    holder[key] = draw.choice((0, -1, 1, 65536, 2**31, 1.0, 0.5, 10**6, 101))
    return f"{key} = {holder[key]!r}"


def _odd_key(draw: Random, pod: Json) -> str:
    maps = [
        holder[key] for holder, key in _places(pod) if isinstance(holder[key], dict) and key in MAPS and holder[key]
    ]
    if not maps:
        return _misspelt_field(draw, pod)
    chosen = draw.choice(maps)
    key = draw.choice(list(chosen))
    wrong = draw.choice(
        (
            f"{key}/",
            f"/{key}",
            f"a/{key}/b",
            f"{key}!",
            key.upper(),
            "",
            "x" * 70,
            "cpus",
            "example.com/dev",
            f"{key}.",
            "é",
        )
    )
    chosen[wrong] = chosen.pop(key)
    return f"key {wrong!r}"


MAPS = ("labels", "annotations", "limits", "requests", "nodeSelector", "matchLabels", "overhead")


def _left_out(draw: Random, pod: Json) -> str:
    place = _a_place(draw, pod)
    if place is None:
        return ""
    holder, key = place
    del holder[key]
    return str(key)


def _entry_twice(draw: Random, pod: Json) -> str:
    place = _a_place(draw, pod, list)
    if place is None or not place[0][place[1]]:
        return ""
    entries = place[0][place[1]]
    entries.append(json.loads(_text(draw.choice(entries))))
    return str(place[1])


def _key_twice(draw: Random, pod: Json) -> str:
    found = [(holder, key) for holder, key in _places(pod) if isinstance(holder[key], dict) and holder[key]]
    holder, key = draw.choice(found)
    doubled = Twice(holder[key])
    doubled.repeated = draw.choice(list(doubled))
    holder[key] = doubled
    return f"{doubled.repeated} in {key}"


def _odd_amount(draw: Random, pod: Json) -> str:
    resources = _first(pod).setdefault("resources", {})
    if not isinstance(resources, dict):
        return ""
    for field in draw.choice((("limits",), ("requests",), ("limits", "requests"))):
        amounts = resources.setdefault(field, {})
        if isinstance(amounts, dict):
            name = draw.choice(
                (
                    "cpu",
                    "memory",
                    "nvidia.com/gpu",
                    "hugepages-2Mi",
                    "hugepages-1Gi",
                    "hugepages-3",
                    "gpu",
                    "ephemeral-storage",
                    "storage",
                )
            )
            amounts[name] = draw.choice(
                (
                    "-1",
                    "0",
                    "1.5",
                    "3Mi",
                    "2Gb",
                    "1Gi",
                    "1e3",
                    "",
                    " 4 ",
                    "0.0001",
                    "1000Ei",
                    3,
                    2.5,
                    "100m",
                    True,
                    None,
                )
            )
    return str(resources)


def _swapped_word(draw: Random, pod: Json) -> str:
    place = _a_place(draw, pod, str)
    if place is None:
        return ""
    holder, key = place
    words = (
        "Always",
        "Exists",
        "In",
        "NoSchedule",
        "TCP",
        "None",
        "Never",
        "always",
        "DoNotSchedule",
        "Honor",
        "Equal",
        "Gt",
        "linux",
        "windows",
        "v1",
    )
    holder[key] = draw.choice(words)
    return f"{key} = {holder[key]!r}"


def _moved(draw: Random, pod: Json) -> str:
    """A field on another level, as after a wrong indentation."""
    holder, key = draw.choice(
        [(holder, key) for holder, key in _places(pod) if isinstance(holder, dict) and key not in NEVER_SPOILED]
    )
    target = draw.choice(
        [each for each in (pod, pod.get("metadata"), pod.get("spec"), *_containers(pod)) if isinstance(each, dict)]
    )
    value = holder.pop(key)
    target[key] = value
    return str(key)


def _containers(pod: Json) -> list[Json]:
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return [each for each in containers if isinstance(each, dict)] if isinstance(containers, list) else []


def _guarded(fault: Callable[[Random, Json], str]) -> Callable[[Random, Json], str]:
    """A second fault may find nothing left of what it wants to spoil."""

    def careful(draw: Random, pod: Json) -> str:
        try:
            return fault(draw, pod)
        except (KeyError, IndexError, TypeError, AttributeError):
            return "nothing left to spoil"

    careful.__name__ = fault.__name__
    return careful


FAULTS = tuple(
    map(
        _guarded,
        (
            *(
                _misspelt_field,
                _wrong_type,
                _odd_text,
                _odd_text,
                _odd_number,
                _odd_key,
                _left_out,
                _entry_twice,
                _key_twice,
            ),
            *(_odd_amount, _odd_amount, _swapped_word, _swapped_word, _moved),
        ),
    )
)
