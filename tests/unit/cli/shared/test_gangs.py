"""`bayplan place` and `bayplan why` for whole gangs, on the cluster of examples/gangs."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.unit.cli.conftest import EXAMPLES, Bayplan
from tests.unit.cli.gang_files import CLUSTER, GANGS, gang_file, kai_gang

BLOCK, RACK = "example.com/block", "example.com/rack"
REQUESTS = '{cpu: "16", memory: 160Gi, nvidia.com/gpu: "4"}'


@pytest.mark.parametrize(
    "gang, code, answer",
    [
        ("pretrain", 0, "ml/pretrain fits: block b2, 2 racks, 8 nodes (optimal)"),
        ("segments", 0, "ml/pipeline fits: block b1, 3 racks, 6 nodes (optimal)"),
        (
            "too-large",
            1,
            "ml/too-large does not fit: the gang needs 40 slots in one block, but can get at most 32.",
        ),
    ],
)
def test_the_first_line_is_the_answer(bayplan: Bayplan, gang: str, code: int, answer: str) -> None:
    result = bayplan("place", "-f", GANGS / f"{gang}.yaml", cluster=CLUSTER)
    assert (result.code, result.answer, result.err) == (code, answer, "")


DOCUMENTED = re.findall(
    r"```\n\$ bayplan ([^\n]* examples/gangs/cluster\.yaml[^\n]*)\n(.*?)```",
    "".join((EXAMPLES.parent / "docs" / page).read_text() for page in ("place.md", "why.md", "topology.md")),
    re.DOTALL,
)


@pytest.mark.parametrize("line, output", DOCUMENTED)
def test_the_documentation_shows_what_the_commands_say(
    bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch, line: str, output: str
) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    assert bayplan(*line.split(), cluster=None).out == output


def test_seats_are_told_rack_by_rack_and_the_room_before_and_after(bayplan: Bayplan) -> None:
    out = bayplan("place", "-f", GANGS / "pretrain.yaml", cluster=CLUSTER).out
    assert out.splitlines()[2:] == [
        "  rack   pods  ranks  nodes",
        "  b2/r3     8  0-7    b2-r3-n[1-4]",
        "  b2/r4     8  8-15   b2-r4-n[1-3,5]",
        "",
        "  largest gang of                         in one block  in one rack  on one node",
        "  cpu 16  memory 160Gi  nvidia.com/gpu 4       32 → 20        8 → 8        2 → 2",
        "",
        "  rests on  equal pods: counted exactly",
        "  distance  at most 4 between two pods, 2.93 on average",
    ]
    wide = bayplan("place", "-f", GANGS / "pretrain.yaml", "-o", "wide", cluster=CLUSTER).out
    assert "  goals     fewest-domains, then mean-distance, then " in wide


def test_the_objective_can_be_given_for_all_gangs(bayplan: Bayplan, tmp_path: Path) -> None:
    fields = ("size: 16", f"preferred: {RACK}", "objective: [least-leftover]")
    file = gang_file(tmp_path, *fields)
    own = json.loads(bayplan("place", "-f", file, "-o", "json", cluster=CLUSTER).out)["gangs"][0]
    given = bayplan("place", "-f", file, "-o", "json", "--objective", "closest", cluster=CLUSTER).out
    other = json.loads(given)["gangs"][0]
    assert own["objective"] == ["least-leftover", "fewest-domains", "mean-distance", "fewest-nodes", "closest"]
    assert other["objective"] == ["closest", "fewest-domains", "mean-distance", "fewest-nodes", "least-leftover"]
    assert other["distance"] == {"largest": 4, "mean": 2.933}


def test_an_unknown_goal(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", GANGS / "pretrain.yaml", "--objective", "cheapest", cluster=CLUSTER)
    assert result.code == 2
    assert (
        '"cheapest" must be one of fewest-domains, mean-distance, fewest-nodes, least-leftover, closest' in result.err
    )


def test_groups_stay_in_their_racks(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", GANGS / "sub-groups.yaml", "-o", "json", cluster=CLUSTER)
    (gang,) = json.loads(result.out)["gangs"]
    racks: dict[str, set[tuple[str, ...]]] = {}
    for seat in gang["seats"]:
        racks.setdefault(seat["group"][-1], set()).add(tuple(seat["domain"]))
    assert (result.code, gang["status"], gang["preferredDomains"]) == (0, "optimal", 2)
    assert {replica: len(used) for replica, used in racks.items()} == {"0": 1, "1": 1, "2": 1}


def test_wide_shows_every_seat_with_its_zones(bayplan: Bayplan) -> None:
    lines = bayplan("place", "-f", GANGS / "segments.yaml", "-o", "wide", cluster=CLUSTER).out.splitlines()
    assert lines[2].split() == ["rank", "pod", "node", "NUMA", "zones", "rack", "segment"]
    assert lines[7].split() == ["4", "ml/pipeline-4", "b1-r2-n1", "0", "b1/r2", "1"]
    assert lines[8].split() == ["5", "ml/pipeline-5", "b1-r2-n1", "1", "b1/r2", "1"]


def test_a_refusal_tells_the_room_of_every_level_and_what_became_of_the_nodes(bayplan: Bayplan) -> None:
    out = bayplan("place", "-f", GANGS / "too-large.yaml", cluster=CLUSTER).out
    assert "   40 in the tree         3 no label example.com/block (login-[1-2]), example.com/rack (spare-1)" in out
    assert "   27 in one zone         2 fragmented: b1-r2-n2, b2-r3-n5" in out
    assert "  block        2         0         32  b2" in out
    assert (
        "Proven: there is no place for it as long as nothing changes.\nWould schedule now if:  32 pods instead "
        "of 40\n" in out
    )


def test_every_gang_sees_what_the_earlier_ones_took(bayplan: Bayplan, pods: Path) -> None:
    files = [GANGS / "pretrain.yaml", GANGS / "too-large.yaml", pods / "web.yaml"]
    result = bayplan("place", *(part for file in files for part in ("-f", file)), cluster=CLUSTER)
    assert (result.code, result.answer) == (1, "1 of 2 gangs and 1 of 1 other pod fit")
    assert "but can get at most 20." in result.out


@pytest.mark.parametrize(
    "fields, answer",
    [
        (["size: 40", "minimum: 20", f"required: {BLOCK}"], "(optimal, 8 pods left out)"),
        (
            ["size: 20", f"required: {BLOCK}", f"segments: [{{size: 10, level: {RACK}, preferred: true}}]"],
            "(optimal, without segments of 10)",
        ),
        (
            ["size: 16", f"preferred: {RACK}", "patience: {domains: 1, seconds: 300}"],
            "waits for a better place than block b2, 2 racks, 8 nodes (optimal)",
        ),
    ],
)
def test_what_was_given_up_is_in_the_first_line(
    bayplan: Bayplan, tmp_path: Path, fields: list[str], answer: str
) -> None:
    assert bayplan("place", "-f", gang_file(tmp_path, *fields), cluster=CLUSTER).answer.endswith(answer)


def test_room_is_counted_as_pods_that_want_no_fellow_on_their_node_have_it(bayplan: Bayplan, tmp_path: Path) -> None:
    alone = "[{labelSelector: {matchLabels: {app: g}}, topologyKey: kubernetes.io/hostname}]"
    affinity = f"affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {alone}}}}}"
    file = gang_file(
        tmp_path, "size: 6", f"required: {RACK}", pod=f"{{spec: {{containers: [{{name: c}}], {affinity}}}}}"
    )
    file.write_text(file.read_text().replace("{name: g,", "{name: g, labels: {app: g},"))
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    assert result.answer == "ml/g does not fit: the gang needs 6 slots in one rack, but can get at most 5."
    assert "  rack         8         0          5  b1/r1" in result.out
    assert "  node        40         0          1  b1-r1-n1" in result.out


def patient_gang(folder: Path) -> Path:
    """`ml/g`: two racks would hold its 16 pods now; it waits for one up to 300 s.

    The last of its pods was created at 12:01.
    """
    file = gang_file(folder, "size: 16", f"preferred: {RACK}", "patience: {domains: 1, seconds: 300}")
    members = [
        f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: g-{rank}, namespace: ml, "
        f'creationTimestamp: "2026-01-31T12:0{rank // 15}:00Z", labels: {{bayplan.io/pod-group: g}}}}\n'
        f"spec: {{containers: [{{name: c, image: i, resources: {{requests: {REQUESTS}, limits: {REQUESTS}}}}}]}}\n"
        for rank in range(16)
    ]
    file.write_text("".join([file.read_text(), *members]))
    return file


class TestPatience:
    def test_why_says_how_long_a_gang_has_waited_and_will_wait(self, bayplan: Bayplan, tmp_path: Path) -> None:
        asked = ("why", "podgroup/g", "--cluster", patient_gang(tmp_path), "--now", "2026-01-31T12:03:00Z")
        result = bayplan(*asked, cluster=CLUSTER)
        better = "it waits for a better place than block b2, 2 racks, 8 nodes (optimal)"
        assert (result.code, result.answer) == (1, f"ml/g is Pending for 2m: {better}")
        assert "patience  2 preferred domains, waits for 1 up to 300 s; 180 s more" in result.out
        document = json.loads(bayplan(*asked, "-o", "json", cluster=CLUSTER).out)
        assert (document["waitingSeconds"], document["now"]["patienceLeftSeconds"]) == (120, 180.0)
        assert (document["now"]["fits"], len(document["now"]["seats"])) == (False, 16)

    @pytest.mark.parametrize("name", ["podgroup/g", "ml/g-3"])
    def test_the_clock_is_the_same_for_the_gang_and_for_its_pods(
        self, bayplan: Bayplan, tmp_path: Path, name: str
    ) -> None:
        asked = ("why", name, "--cluster", patient_gang(tmp_path), "--now")
        waiting = bayplan(*asked, "2026-01-31T12:05:01Z", cluster=CLUSTER)
        assert (waiting.code, "; 59 s more" in waiting.out) == (1, True), "its oldest pod has waited for 301 s"
        assert bayplan(*asked, "2026-01-31T12:06:00Z", cluster=CLUSTER).code == 0

    def test_place_counts_from_the_same_moment(self, bayplan: Bayplan, tmp_path: Path) -> None:
        assert bayplan("place", "-f", patient_gang(tmp_path), cluster=CLUSTER).code == 0, "it has waited for long"


def test_a_gang_with_a_gate_waits_whatever_the_nodes_say(bayplan: Bayplan, tmp_path: Path) -> None:
    gated = "{spec: {containers: [{name: c}], schedulingGates: [{name: example.com/quota}]}}"
    result = bayplan("place", "-f", gang_file(tmp_path, "size: 2", pod=gated), cluster=CLUSTER)
    assert result.code == 1
    assert result.out == "ml/g is not placed: pod ml/g-0 waits for scheduling gate example.com/quota.\n"


def test_json_and_yaml_say_the_same(bayplan: Bayplan) -> None:
    as_json, as_yaml = (
        bayplan("place", "-f", GANGS / "pretrain.yaml", "-o", form, cluster=CLUSTER).out for form in ("json", "yaml")
    )
    document = json.loads(as_json)
    assert document == yaml.safe_load(as_yaml)
    (gang,) = document["gangs"]
    assert (document["items"], gang["gang"], gang["fits"], gang["restsOn"]) == (
        [],
        "ml/pretrain",
        True,
        "equal pods: counted exactly",
    )
    assert gang["seats"][0] == {
        "rank": 0,
        "pod": "ml/pretrain-0",
        "node": "b2-r3-n1",
        "domain": ["b2", "r3"],
        "group": None,
        "segment": None,
        "containers": [{"name": "main", "zones": [0]}],
    }
    assert [room["most"] for room in gang["shapes"][0]["roomAfter"]] == [20, 8, 2]


def test_the_picture_marks_the_nodes_of_the_gang(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", GANGS / "pretrain.yaml", "-o", "svg", cluster=CLUSTER)
    titles = [element.text or "" for element in ET.fromstring(result.out).iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "ml/pretrain fits: block b2, 2 racks, 8 nodes (optimal)"
    assert sum("2 pods of the gang: ranks " in title for title in titles) == 8


@pytest.mark.parametrize(
    "fields, message",
    [
        (["size: 2", "required: example.com/rak"], 'spec.required: "example.com/rak" is not a level; the topology has'),
        (["size: 2", "minimum: 9"], "spec.minimum: 9 is not between 0 and the size 2"),
        (["size: 7", f"segments: [{{size: 2, level: {RACK}}}]"], "spec.segments: size 2 does not divide 7"),
        (["groups: [{name: a, size: 1}, {name: a, size: 1}]"], 'spec.groups: "a" is the name of two groups'),
        (["sise: 2"], "spec.sise: unknown field; did you mean size?"),
        (["size: 0"], "spec.size: 0; the gang or a group inside it must have 1 pod or more"),
        (["minMembr: 2"], "spec.minMembr: unknown field; did you mean minimum?"),
        (["colour: 2"], "spec.colour: unknown field\n"),
        (
            ["groups: [{name: a, size: 1}, {name: b, size: 2, minimum: 3}]"],
            "spec.groups[1].minimum: 3 is not between 0 and the size 2",
        ),
        (
            ["groups: [{name: a, size: 1}]", "minimum: 3"],
            "spec.minimum: 3 is more than the gang's own pods (0); pods of groups have their own minimum",
        ),
        (["size: 1", "placement: everywhere"], 'spec.placement: "everywhere" must be one of binpack, spread'),
    ],
)
def test_a_gang_that_is_wrong_in_itself_is_an_error(
    bayplan: Bayplan, tmp_path: Path, fields: list[str], message: str
) -> None:
    file = gang_file(tmp_path, *fields)
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    assert (result.code, result.out) == (2, "")
    where, _, problem = result.err.removeprefix(f"error: PodGroup ml/g ({file}:").partition("): ")
    assert re.fullmatch(r"\d+:\d+", where)
    assert problem.startswith(message)


def test_the_shape_of_a_group_is_named_and_not_the_pods_made_of_it(bayplan: Bayplan, tmp_path: Path) -> None:
    group = '{name: a, size: 1, pod: {resources: {cpu: "99999999999999999999E"}}}'
    result = bayplan("place", "-f", gang_file(tmp_path, f"groups: [{group}]"), cluster=CLUSTER)
    assert "): spec.groups[0].pod.resources.cpu: " in result.err, result.err


def test_levels_without_effect_are_a_warning_that_names_their_group(bayplan: Bayplan, tmp_path: Path) -> None:
    file = gang_file(tmp_path, f"required: {RACK}", "groups: [{name: a, size: 1, required: block}]")
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    said = f'spec.groups[0].required: "block" has no effect: it is wider than {RACK}, which is required already'
    assert (result.code, said in result.err) == (0, True), result.err


def test_two_podgroups_of_one_name_are_an_error_that_names_the_podgroup(bayplan: Bayplan, tmp_path: Path) -> None:
    file = gang_file(tmp_path, "size: 1")
    file.write_text(f"{file.read_text()}\n---\n{file.read_text()}")
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: PodGroup ml/g ({file}:12:12): metadata.name: is the name of two PodGroups of -f\n"


@pytest.mark.parametrize(
    "topology, cluster, message",
    [
        ("netwrk", CLUSTER, 'topology: "netwrk" does not exist; known: network'),
        ("network", EXAMPLES / "cluster", 'topology: "network" does not exist; the cluster has no Topology'),
    ],
)
def test_a_topology_that_does_not_exist_is_an_error(
    bayplan: Bayplan, tmp_path: Path, topology: str, cluster: Path, message: str
) -> None:
    result = bayplan("place", "-f", gang_file(tmp_path, "size: 1", topology=topology), cluster=cluster)
    assert result.code == 2
    assert message in result.err


def test_a_gang_with_a_pod_that_is_there_already_is_an_error(bayplan: Bayplan, tmp_path: Path) -> None:
    running = kai_gang(tmp_path, pods=1, on="login-1").rename(tmp_path / "running.yaml")
    result = bayplan("place", "-f", kai_gang(tmp_path, pods=1), "--cluster", running, cluster=CLUSTER)
    assert (result.code, result.out) == (2, "")
    assert "Pod ml/k-0 (" in result.err
    assert "is already on node login-1" in result.err


# -- KAI's PodGroups
# -------------------------------------------------------------------------------------------------------


def test_kai_gang_with_its_pods_is_placed_as_one(bayplan: Bayplan, tmp_path: Path) -> None:
    spec = f"minMember: 3, topologyConstraint: {{topology: network, requiredTopologyLevel: {RACK}}}"
    result = bayplan("place", "-f", kai_gang(tmp_path, pods=3, spec=spec), cluster=CLUSTER)
    assert (result.code, result.answer.partition(":")[0]) == (0, "ml/k fits")
    assert "of 3 pods fit" not in result.out


@pytest.mark.parametrize(
    "spec, message",
    [
        ("subGroups: [{name: a, parent: b}, {name: b, parent: a}]", "cycle detected in subgroups"),
        ("subGroups: [{name: a}, {name: a}]", "subgroup <a> already exists"),
        ("subGroups: [{name: a}]", 'pod ml/k-0 names the subgroup "z", which does not exist; known: a'),
    ],
)
def test_kai_sub_groups_that_make_no_sense_are_an_error(
    bayplan: Bayplan, tmp_path: Path, spec: str, message: str
) -> None:
    result = bayplan("place", "-f", kai_gang(tmp_path, pods=1, spec=spec, label="z"), cluster=CLUSTER)
    assert result.code == 2
    assert f"spec.subGroups: {message}" in result.err


# -- why
# -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["finetune", "ml/finetune", "podgroup/finetune", "pg/ml/finetune"])
def test_why_explains_a_gang_of_the_dump(bayplan: Bayplan, name: str) -> None:
    result = bayplan("why", name, cluster=CLUSTER)
    assert (result.code, result.answer) == (
        1,
        "ml/finetune is Pending: the gang needs 9 slots in one rack, but can get at most 8.",
    )
    assert "  rack         8         0          8  b2/r1" in result.out


def test_why_as_a_document(bayplan: Bayplan) -> None:
    document = json.loads(bayplan("why", "ml/finetune", "-o", "json", cluster=CLUSTER).out)
    assert (document["kind"], document["runs"], document["now"]["status"]) == ("GangExplanation", False, "infeasible")
    (shape,) = document["now"]["shapes"]
    assert shape["room"][1] == {"level": RACK, "domains": 8, "holdAll": 0, "most": 8, "in": ["b2", "r1"]}
    assert sum(cause["count"] for cause in shape["causes"]) == 13


def test_why_says_where_a_running_gang_is(bayplan: Bayplan, tmp_path: Path) -> None:
    spec = f"topologyConstraint: {{topology: network, requiredTopologyLevel: {RACK}}}"
    running = kai_gang(tmp_path, pods=2, on="b1-r1-n3", spec=spec)
    result = bayplan("why", "podgroup/k", "--cluster", running, cluster=CLUSTER)
    assert (result.code, result.answer) == (0, "ml/k runs: block b1, rack r1, node b1-r1-n3")
    assert "  b1/r1  default     2  b1-r1-n3\n" in result.out
    assert "  closer?   no: 1 node is the optimum\n" in result.out


def running_gang(folder: Path, *nodes: str) -> Path:
    """bayplan's own PodGroup `ml/run` in segments of 2, whose pods run on these nodes, with ranks; and a pod that
    stands alone.
    """
    member = (
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: run-{0}, namespace: ml, labels: {{bayplan.io/pod-group: "
        "run}}, "
        'annotations: {{bayplan.io/rank: "{0}", bayplan.io/segment: "{1}"}}}}\n'
        "spec: {{nodeName: {2}, containers: [{{name: c, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}\n"
    )
    head = gang_file(folder, f"size: {len(nodes)}", "preferred: rack", "segments: [{size: 2, level: node}]")
    group = head.read_text().replace("{name: g,", "{name: run,")
    solo = (
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: solo, namespace: ml}\nspec: {nodeName: b2-r1-n2, "
        "containers: [{name: c}]}\n"
    )
    file = folder / "running.yaml"
    file.write_text(group + "".join(member.format(rank, rank // 2, node) for rank, node in enumerate(nodes)) + solo)
    head.unlink()
    return file


@pytest.mark.parametrize(
    "nodes, closer",
    [
        (["b2-r1-n1"] * 2 + ["b1-r1-n3"] * 2,
         "yes: 1 rack instead of 2 if started anew (block b1, rack r2, node b1-r2-n1)"),
        (["b2-r1-n1"] * 2 + ["b2-r1-n2"] * 2, "yes: 0 between two pods on average instead of 1.33 if started anew"),
        (["b2-r1-n1"] * 4, "no: 1 rack is the optimum"),
    ],
)  # fmt: skip
def test_why_says_whether_a_running_gang_could_be_closer(
    bayplan: Bayplan, tmp_path: Path, nodes: list[str], closer: str
) -> None:
    result = bayplan("why", "podgroup/run", "-n", "ml", "--cluster", running_gang(tmp_path, *nodes), cluster=CLUSTER)
    assert result.code == 0
    assert f"  closer?   {closer}" in result.out


def test_why_shows_racks_ranks_segments_and_distance_of_a_running_gang(bayplan: Bayplan, tmp_path: Path) -> None:
    nodes = ["b2-r1-n1", "b2-r1-n1", "b1-r1-n3", "b1-r1-n3"]
    running = ("--cluster", running_gang(tmp_path, *nodes))
    out = bayplan("why", "podgroup/run", *running, cluster=CLUSTER).out
    assert "ml/run runs: 2 blocks, 2 racks, 2 nodes\n" in out
    assert "  b2/r1        0     2  0-1    b2-r1-n1\n  b1/r1        1     2  2-3    b1-r1-n3\n" in out
    assert "  distance  at most 6 between two pods, 4 on average\n" in out
    document = json.loads(bayplan("why", "podgroup/run", *running, "-o", "json", cluster=CLUSTER).out)
    assert document["now"]["running"][2] == {
        "rank": 2,
        "pod": "ml/run-2",
        "node": "b1-r1-n3",
        "domain": ["b1", "r1"],
        "group": None,
        "segment": 1,
    }
    closer = document["now"]["couldBeCloser"]
    assert (closer["answer"], closer["domainsNow"], closer["domainsAnew"]) == (True, 2, 1)


def test_why_shows_a_running_pod_in_its_gang(bayplan: Bayplan, tmp_path: Path) -> None:
    running = ("--cluster", running_gang(tmp_path, "b2-r1-n1", "b2-r1-n1"))
    out = bayplan("why", "run-1", "-n", "ml", *running, cluster=CLUSTER).out
    assert "  path      b2/r1/b2-r1-n1\n  in gang   rank 1, segment 0\n" in out
    assert "ml/run runs: block b2, rack r1, node b2-r1-n1\n" in out
    out = bayplan("why", "solo", "-n", "ml", *running, cluster=CLUSTER).out
    assert out.endswith("  path      b2/r1/b2-r1-n2\n")


def test_why_shows_where_the_pods_of_a_running_workload_are(bayplan: Bayplan, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    owner = "ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: u, controller: true}]"
    spec = "containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]"
    file.write_text(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web, namespace: ml, uid: u}\n"
        "spec: {replicas: 2, serviceName: web, selector: {matchLabels: {app: web}}, "
        f"template: {{metadata: {{labels: {{app: web}}}}, spec: {{{spec}}}}}}}\n"
        + "".join(
            "---\napiVersion: v1\nkind: Pod\nmetadata: "
            f"{{name: web-{number}, namespace: ml, labels: {{app: web}}, {owner}}}\n"
            f"spec: {{nodeName: {node}, {spec}}}\nstatus: {{phase: Running}}\n"
            for number, node in enumerate(("b2-r1-n1", "b1-r1-n3"))
        )
    )
    result = bayplan("why", "sts/web", "-n", "ml", "--cluster", file, cluster=CLUSTER)
    assert (result.code, result.answer) == (0, "ml/web: all 2 replicas run: b1-r1-n3, b2-r1-n1")
    assert "  b1/r1     1  b1-r1-n3\n" in result.out
    # Its pods do not ask to be close.
    assert "closer?" not in result.out
    document = json.loads(bayplan("why", "sts/web", "-n", "ml", "--cluster", file, "-o", "json", cluster=CLUSTER).out)
    assert document["standing"]["couldBeCloser"] is None


def test_why_says_what_is_wrong_with_where_a_running_gang_is(bayplan: Bayplan, tmp_path: Path) -> None:
    spec = f"topologyConstraint: {{topology: network, requiredTopologyLevel: {RACK}}}"
    together = kai_gang(tmp_path, pods=2, on="b1-r1-n3", spec=spec)
    apart = together.with_name("apart.yaml")
    apart.write_text("b1-r2-n1".join(together.read_text().rsplit("b1-r1-n3", 1)))
    together.unlink()
    result = bayplan("why", "podgroup/k", "--cluster", apart, cluster=CLUSTER)
    told = f"ml/k is not placed: members run in b1/r1 and in b1/r2, but must share one {RACK}."
    assert (result.code, result.answer) == (1, told)


@pytest.mark.parametrize(
    "status, answer",
    [
        ("", "waits for pods: 0 of 9 in group worker have arrived"),
        ("status: {phase: Ended}\n", "has ended: no pods are left"),
    ],
)
def test_why_about_a_gang_of_a_cluster_without_pods(bayplan: Bayplan, tmp_path: Path, status: str, answer: str) -> None:
    group = tmp_path / "group.yaml"
    metadata = "{name: pretrain, namespace: ml, uid: 12-34}"
    head = f"apiVersion: bayplan.io/v1alpha1\nkind: PodGroup\nmetadata: {metadata}\n"
    group.write_text(f"{head}spec: {{topology: network, groups: [{{name: worker, size: 9}}]}}\n{status}")
    result = bayplan("why", "podgroup/pretrain", "--cluster", group, cluster=CLUSTER)
    assert (result.code, result.answer, result.err) == (1, f"ml/pretrain is not placed: {answer}.", "")


def test_why_tells_where_a_waiting_gang_would_fit(bayplan: Bayplan, tmp_path: Path) -> None:
    waiting = kai_gang(tmp_path, pods=2)
    result = bayplan("why", "k", "--cluster", waiting, cluster=CLUSTER)
    assert (result.code, result.answer.partition(" (")[0]) == (0, "ml/k is Pending: it fits now: node b1-r1-n1")


class TestWhyAMemberOfAGangWaits:
    @pytest.mark.parametrize(
        "pod, answer",
        [
            (
                "finetune-0",
                "its gang ml/finetune does not fit: the gang needs 9 slots in one rack, but can get at most 8.",
            ),
            ("k-0", "its gang ml/k is not placed: waits for pods: 2 of 3 have arrived."),
            ("lost", "its gang ml/nope is not placed: waits for PodGroup ml/nope (volcano), which does not exist."),
        ],
    )
    def test_it_has_its_gangs_answer(self, bayplan: Bayplan, tmp_path: Path, pod: str, answer: str) -> None:
        kai_gang(tmp_path, pods=2, spec="minMember: 3")
        names = "name: lost, namespace: ml, annotations: {scheduling.k8s.io/group-name: nope}"
        lost = f"apiVersion: v1\nkind: Pod\nmetadata: {{{names}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        (tmp_path / "lost.yaml").write_text(lost)
        result = bayplan("why", f"ml/{pod}", "--cluster", tmp_path, cluster=CLUSTER)
        assert (result.code, result.answer) == (1, f"ml/{pod} is Pending: {answer}")
        document = json.loads(bayplan("why", f"ml/{pod}", "-o", "json", "--cluster", tmp_path, cluster=CLUSTER).out)
        assert (document["kind"], document["pod"], document["phase"]) == ("Explanation", f"ml/{pod}", "Pending")
        assert document["gang"] in answer
        assert (document["now"]["fits"], f"its gang {document['now']['answer']}") == (False, answer)

    def test_where_the_gang_fits_the_pod_has_a_seat(self, bayplan: Bayplan, tmp_path: Path) -> None:
        result = bayplan("why", "ml/k-1", "--cluster", kai_gang(tmp_path, pods=2), cluster=CLUSTER)
        assert (result.code, result.answer.partition(" (")[0]) == (
            0,
            "ml/k-1 is Pending: its gang ml/k fits: node b1-r1-n1",
        )
        assert result.out.endswith("\n\n  this pod  on b1-r1-n1, rank 1\n")

    def test_one_that_runs_is_told_where_it_is(self, bayplan: Bayplan, tmp_path: Path) -> None:
        pods = kai_gang(tmp_path, pods=2, on="b1-r1-n3")
        result = bayplan("why", "ml/k-0", "--cluster", pods, cluster=CLUSTER)
        assert (result.code, result.answer) == (0, "ml/k-0 is on b1-r1-n3, not pinned to a NUMA zone.")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["pg/finetun"], "there is no PodGroup 'finetun' in the dump"),
        (["finetune", "--node", "login-1"], "--node asks about one pod, and this is a gang"),
    ],
)
def test_what_why_cannot_answer(bayplan: Bayplan, arguments: list[str], message: str) -> None:
    result = bayplan("why", *arguments, cluster=CLUSTER)
    assert result.code == 2
    assert message in result.err
