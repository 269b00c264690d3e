"""Inputs that users of telco, HPC and ML clusters come with by mistake or by habit: what they read, and the exit code.

Each row is one input: a command, its files and what stdout or stderr says. Nothing may be lost in silence, and nothing
may end in a traceback.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.cli.conftest import EXAMPLES, Bayplan

NODES, RACKS = EXAMPLES / "cluster", EXAMPLES / "gangs" / "cluster.yaml"
Content = str | bytes


class Unusual(NamedTuple):
    """An input: `said` is part of stdout if the command answers (0, 1) without `warned`, part of stderr otherwise."""

    name: str
    content: Content
    code: int
    said: str
    cluster: Path = NODES
    warned: bool = False


def pod(resources: str = "", metadata: str = "", spec: str = "") -> str:
    container = f"{{name: c, image: i, resources: {{{resources}}}}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{metadata}}}\nspec: {{{spec}containers: [{container}]}}\n"


def template(policy: str, metadata: str = "") -> str:
    limits = "resources: {limits: {cpu: 2, memory: 1Gi}}"
    spec = f"{{restartPolicy: {policy}, containers: [{{name: c, image: i, {limits}}}]}}"
    return f"template: {{metadata: {{labels: {{app: a}}{metadata}}}, spec: {spec}}}"


def replicated(fields: str, kind: str = "Deployment", version: str = "apps/v1", label: str = "a") -> str:
    spec = f"selector: {{matchLabels: {{app: {label}}}}}, {template('Always')}, {fields}"
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec: {{{spec}}}\n"


def job(fields: str, metadata: str = "") -> str:
    return (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec: "
        f"{{{template('Never', metadata)}, {fields}}}\n"
    )


def group(spec: str) -> str:
    pods = "pod: {resources: {cpu: 1}}"
    return (
        "apiVersion: bayplan.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g, namespace: "
        f"ml}}\nspec: {{{pods}, {spec}}}\n"
    )


def example(path: str, old: str, new: str) -> str:
    text = (EXAMPLES / path).read_text()
    assert old in text
    return text.replace(old, new)


JOB_SET, LWS, TORCH = "workloads/jobset.yaml", "workloads/leaderworkerset.yaml", "workloads/pytorchjob.yaml"
IN_POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"
IN_RACK = "kai.scheduler/topology: network, kai.scheduler/topology-required-placement: example.com/rack"
REQUESTS = "spec.containers[0].resources.requests"
SUBMITTED = [
    # Files
    Unusual("CSV", "name,cpu\np,2\n", 2, "must be a mapping, not a string; expected a Kubernetes object"),
    Unusual("UTF-16", pod().encode("utf-16"), 0, "default/p fits"),
    Unusual("byte order mark", b"\xef\xbb\xbf" + pod().encode(), 0, "default/p fits"),
    Unusual("CRLF", pod().replace("\n", "\r\n"), 0, "default/p fits"),
    Unusual("tab", "kind: Pod\nmetadata:\n\tname: p\n", 2, "in.yaml:3:1: is not valid YAML: a tab cannot indent"),
    Unusual("empty documents", f"---\n---\n# none\n---\n{pod()}---\n", 0, "default/p fits"),
    Unusual("List of Lists", f"kind: List\nitems: [{{kind: List, items: [{IN_POD}]}}]\n", 0, "default/p fits"),
    Unusual("items: null", "kind: PodList\napiVersion: v1\nitems: null\n", 2, "-f holds no pod"),
    # Pods
    Unusual("requests of 0", pod("requests: {cpu: 0, memory: 0}"), 0, "default/p fits"),
    Unusual("emoji as name", pod().replace("name: p", "name: 🚀"), 2, 'metadata.name: "🚀" is not allowed'),
    Unusual(
        "no as name", pod().replace("name: p", "name: no"), 2, "metadata.name: must be a string, not true or false"
    ),
    Unusual("memory with exponent", pod("requests: {memory: 1e9}"), 0, "default/p fits"),
    Unusual(
        "memory in thousandths",
        pod("requests: {memory: 1500m}"),
        0,
        f'{REQUESTS}.memory: "1500m" is a fraction of a byte and counts as 2; did you mean 1500Mi?',
        warned=True,
    ),
    Unusual("1e400", pod("requests: {cpu: 1e400}"), 2, f'{REQUESTS}.cpu: invalid quantity "1e400"'),
    Unusual("infinity", pod("requests: {cpu: .inf}"), 2, f'{REQUESTS}.cpu: invalid quantity ".inf"'),
    Unusual("not a number", pod("requests: {memory: .nan}"), 2, f'{REQUESTS}.memory: invalid quantity ".nan"'),
    Unusual("two points", pod("requests: {cpu: 0.5.5}"), 2, f'{REQUESTS}.cpu: invalid quantity "0.5.5"'),
    Unusual(
        "GB", pod("requests: {memory: 1GB}"), 2, 'invalid quantity "1GB": expected a number with an optional suffix'
    ),
    Unusual("full-width digits", pod("requests: {cpu: '\uff12'}"), 2, 'invalid quantity "\uff12"'),
    Unusual("minutes", pod("requests: {cpu: 1:30}"), 2, 'invalid quantity "1:30"'),
    Unusual("number as label", pod(metadata=", labels: {v: 1.10}"), 2, "must be a string: put it in quotes"),
    Unusual(
        "unknown device",
        pod("limits: {nvidia.com/gpus: 1}"),
        1,
        "no node has nvidia.com/gpus (did you mean nvidia.com/gpu?)",
    ),
    Unusual("device without domain", pod("limits: {gpu: 1}"), 2, "a name with a domain such as nvidia.com/gpu"),
    Unusual("unknown node", pod(spec="nodeName: nowhere, "), 1, "no node has the name in its spec.nodeName"),
    Unusual(
        "gate", pod(spec="schedulingGates: [{name: a}], "), 1, "default/p is not placed: it waits for scheduling gate a"
    ),
    Unusual("pod twice", f"{pod()}---\n{pod()}", 2, "Pod default/p: metadata.name: is the name of two pods of -f"),
    Unusual("limit of 0 zones", pod(metadata=", annotations: {bayplan.io/max-numa-zones: '0'}"), 2, "from 1 to 64"),
    Unusual(
        "misspelt own annotation",
        pod(metadata=", annotations: {bayplan.io/max-numa-zone: '1'}"),
        2,
        '(in.yaml:3:35): metadata.annotations["bayplan.io/max-numa-zone"]: is not known; did you mean bayplan.io/max',
    ),
    # Kinds
    Unusual("kind in lower case", pod().replace("Pod", "pod"), 2, 'kind: "pod" is not known; did you mean Pod?'),
    Unusual("misspelt kind", replicated("replicas: 1", "Deploymnet"), 2, "did you mean Deployment?"),
    Unusual(
        "outdated group",
        replicated("replicas: 1", version="extensions/v1beta1"),
        2,
        'Deployment web (in.yaml:1:1): apiVersion: "extensions/v1beta1" has no Deployment; expected group apps',
    ),
    # Workloads
    Unusual(
        "version that is not served",
        replicated("replicas: 1", version="apps/v2"),
        2,
        'apiVersion: "apps/v2" is not served; expected apps/v1',
    ),
    Unusual(
        "no selector",
        replicated("replicas: 1").replace("selector: {matchLabels: {app: a}}, ", ""),
        0,
        "spec.selector: is missing: an API server would refuse this object",
        warned=True,
    ),
    Unusual("no replicas", replicated("replicas: 0"), 0, "default/web: 0 replicas: there is nothing to place"),
    Unusual(
        "half a replica", replicated("replicas: 1.5"), 2, "spec.replicas: 1.5 is not allowed: must be a whole number"
    ),
    Unusual(
        "too many replicas", replicated("replicas: 2000000000"), 2, "spec.replicas: 2000000000 must be 0 to 100000"
    ),
    Unusual(
        "selector of other pods",
        replicated("replicas: 1", label="b"),
        2,
        'spec.selector.matchLabels["app"]: "b" is not allowed: must be a label of spec.template.metadata.labels',
    ),
    Unusual(
        "volume claims",
        replicated("serviceName: s, volumeClaimTemplates: [{metadata: {name: d}, spec: {}}]", "StatefulSet"),
        2,
        "spec.volumeClaimTemplates[0].spec.accessModes: is missing",
    ),
    Unusual("replicas of a DaemonSet", replicated("replicas: 3", "DaemonSet"), 2, "spec.replicas: unknown field"),
    Unusual("more in parallel than to do", job("parallelism: 8, completions: 3"), 0, "default/train: all 3 pods fit"),
    Unusual("nothing in parallel", job("parallelism: 0"), 0, "default/train: 0 pods: there is nothing to place"),
    Unusual("less than nothing in parallel", job("parallelism: -3"), 2, "spec.parallelism: -3 must be 0 to 100000"),
    Unusual(
        "misspelt mode",
        job("completionMode: indexed, completions: 2"),
        2,
        'spec.completionMode: "indexed" is not allowed: must be NonIndexed, Indexed; did you mean Indexed?',
    ),
    Unusual("Indexed without completions", job("completionMode: Indexed"), 2, "spec.completions: is missing"),
    Unusual(
        "Job that restarts always", job("parallelism: 1").replace("Never", "Always"), 2, "template.spec.restartPolicy"
    ),
    Unusual(
        "no schedule",
        (
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: n}\nspec: {jobTemplate: "
            f"{{spec: {{{template('Never')}}}}}}}\n"
        ),
        2,
        "CronJob n (in.yaml:4:1): spec.schedule: is missing",
    ),
    Unusual(
        "gang annotations on the template",
        job("parallelism: 4, completions: 4, completionMode: Indexed", f", annotations: {{{IN_RACK}}}"),
        0,
        "default/train fits: block b1, rack r2",
        RACKS,
    ),
    Unusual(
        "misspelt annotation of a JobSet",
        example(JOB_SET, "required-placement", "required-placment"),
        2,
        "did you mean kai.scheduler/topology-required-placement?",
        RACKS,
    ),
    Unusual(
        "misspelt exclusive placement",
        example(JOB_SET, "  annotations:", "  annotations:\n    alpha.jobset.sigs.k8s.io/exclusive-topolog: rack"),
        2,
        "did you mean alpha.jobset.sigs.k8s.io/exclusive-topology?",
        RACKS,
    ),
    Unusual(
        "misspelt field of a JobSet",
        example(JOB_SET, "    replicas: 2", "    replica: 2"),
        2,
        "spec.replicatedJobs[1].replica: unknown field; did you mean replicas?",
        RACKS,
    ),
    Unusual(
        "misspelt size of a LeaderWorkerSet",
        example(LWS, "    size:", "    sizes:"),
        2,
        "spec.leaderWorkerTemplate.sizes: unknown field; did you mean size?",
        RACKS,
    ),
    Unusual(
        "subgroups that do not divide",
        example(LWS, "leaderWorkerTemplate:", "leaderWorkerTemplate:\n    subGroupPolicy: {subGroupSize: 5}"),
        2,
        "subGroupPolicy.subGroupSize: 5 must divide 4 or 3, the pods of a group",
        RACKS,
    ),
    Unusual(
        "text as replicas",
        example(TORCH, "replicas: ", "replicas: x"),
        2,
        '.replicas: "x1" must be a whole number',
        RACKS,
    ),
    # Names
    Unusual(
        "capitals as the name of a Deployment",
        replicated("replicas: 1").replace("web", "Web"),
        2,
        '"Web" is not allowed',
        RACKS,
    ),
    Unusual(
        "underscore as the name of a PodGroup",
        group("size: 2").replace("name: g", "name: g_1"),
        2,
        '"g_1" is not',
        RACKS,
    ),
    Unusual(
        "name of a JobSet",
        example(JOB_SET, "name: tune", "name: -tune"),
        2,
        'JobSet ml/-tune (in.yaml:5:3): metadata.name: "-tune"',
        RACKS,
    ),
    Unusual(
        "label of a PyTorchJob",
        example(TORCH, "namespace: ml", "namespace: ml\n  labels: {team: a b}"),
        2,
        'metadata.labels["team"]: "a b" is not allowed',
        RACKS,
    ),
    Unusual(
        "number as the name of a JobSet",
        example(JOB_SET, "name: tune", "name: 7"),
        2,
        "metadata.name: must be a string",
        RACKS,
    ),
    # Gangs
    Unusual("gang of 0", group("size: 0"), 2, "the gang or a group inside it must have 1 pod or more", RACKS),
    Unusual("gang beyond the cluster", group("size: 9999"), 1, "needs 9999 slots, but can get at most 3504", RACKS),
    Unusual("more than all", group("size: 2, minimum: 3"), 2, "minimum: 3 is not between 0 and the size 2", RACKS),
    Unusual(
        "negative patience",
        group("size: 2, preferred: rack, patience: {domains: 1, seconds: -5}"),
        2,
        "spec.patience.seconds: -5 must be a number of seconds, 0 or more",
        RACKS,
    ),
    Unusual(
        "patience for nothing",
        group("size: 2, patience: {domains: 1, seconds: 5}"),
        2,
        "patience: is for a preferred level; the gang has none",
        RACKS,
    ),
    Unusual("misspelt goal", group("size: 2, objective: [closet]"), 2, '"closet" must be one of fewest-domains', RACKS),
    Unusual(
        "PodGroup twice", f"{group('size: 2')}---\n{group('size: 3')}", 2, "is the name of two PodGroups of -f", RACKS
    ),
    Unusual(
        "pods of a PodGroup that does not exist",
        example("dialects/kubernetes-podgroup.yaml", "podGroupName: train", "podGroupName: tran"),
        1,
        "ml/tran is not placed: waits for PodGroup ml/tran (kubernetes), which does not exist.",
        RACKS,
    ),
    Unusual(
        "misspelt level of KAI",
        example("dialects/kai-podgroup.yaml", "example.com/rack", "example.com/rak"),
        2,
        'did you mean "example.com/rack"?',
        RACKS,
    ),
    Unusual(
        "words as a count of Kueue",
        example("dialects/kueue-pods.yaml", 'total-count: "4"', 'total-count: "four"'),
        2,
        '"four" must be the number of pods, 1 or more',
        RACKS,
    ),
    Unusual(
        "misspelt field of coscheduling",
        example("dialects/coscheduling-podgroup.yaml", "minMember", "minMembers"),
        0,
        "spec.minMembers: unknown field; did you mean minMember?",
        RACKS,
        warned=True,
    ),
]


@pytest.mark.parametrize("case", SUBMITTED, ids=[each.name for each in SUBMITTED])
def test_what_a_user_submits_is_placed_or_refused_in_clear_words(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Unusual
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.yaml").write_bytes(case.content if isinstance(case.content, bytes) else case.content.encode())
    result = bayplan("place", "-f", "in.yaml", cluster=case.cluster)
    silent, speaks = (result.out, result.err) if case.code == 2 or case.warned else (result.err, result.out)
    assert (result.code, case.said in " ".join(speaks.split())) == (case.code, True), result
    assert case.warned or not silent


NODE = """apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 110}, conditions: [{type: Ready, status: "True"}]}
"""
REPORT = """---
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: n1}
topologyPolicies: [SingleNUMANodePodLevel]
zones:
- name: node-0
  type: Node
  costs: [{name: node-0, value: 10}]
  resources: [{name: cpu, capacity: 8, allocatable: 8, available: 8}]
"""


@pytest.mark.parametrize(
    "written, misspelt, said",
    [
        (
            "status:",
            "spec: {taints: [{key: k, effect: NoSchedul}]}\nstatus:",
            (
                'Node n1: spec.taints[0].effect: "NoSchedul" keeps no pod away; expected NoExecute, NoSchedule, '
                "PreferNoSchedule; did you mean NoSchedule?"
            ),
        ),
        (
            "topologyPolicies",
            "topologyPolicy",
            "NodeResourceTopology n1 (in.yaml:9:1): topologyPolicy: unknown field; did you mean topologyPolicies?",
        ),
        (
            "resources",
            "resouces",
            "NodeResourceTopology n1 (in.yaml:14:3): zones[0].resouces: unknown field; did you mean resources?",
        ),
        (
            "available",
            "availabel",
            (
                "NodeResourceTopology n1 (in.yaml:14:56): zones[0].resources[0].availabel: unknown "
                "field; did you mean available?"
            ),
        ),
        (
            "topologyPolicies:",
            "attribute: [{name: topologyManagerPolicy, value: restricted}]\ntopologyPolicies:",
            "NodeResourceTopology n1 (in.yaml:9:1): attribute: unknown field; did you mean attributes?",
        ),
        (
            "{name: cpu, capacity",
            "{name: cpus, capacity",
            'NodeResourceTopology n1: zones: the node has no resource "cpus"; did you mean cpu?',
        ),
        (
            "allocatable: {cpu: 8",
            "alocatable: {cpu: 8",
            "Node n1 (in.yaml:4:10): status.alocatable: unknown field; did you mean allocatable?",
        ),
    ],
    ids=["taint effect", "policies", "resources", "available", "attributes", "resource name", "field of a node"],
)
def test_a_misspelt_field_of_a_node_or_its_report_in_a_dump_is_a_warning(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, misspelt: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.yaml").write_text((NODE + REPORT).replace(written, misspelt, 1))
    result = bayplan("nodes", cluster=Path("in.yaml"))
    assert (result.code, f"warning: {said}" in result.err.splitlines()) == (0, True), result


def test_the_map_form_of_a_report_is_no_misspelling(bayplan: Bayplan, tmp_path: Path) -> None:
    zone = "{type: Node, resources: {cpu: {capacity: 8, allocatable: 8}}}"
    report = (
        "---\napiVersion: topology.node.k8s.io/v1alpha1\nkind: NodeResourceTopology\nmetadata: {name: "
        f"n1}}\ntopologyPolicies: [None]\nzones: {{node-0: {zone}}}\n"
    )
    (tmp_path / "in.yaml").write_text(NODE + report)
    result = bayplan("nodes", cluster=tmp_path / "in.yaml")
    assert (result.code, result.err) == (0, "")
