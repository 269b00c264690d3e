"""Gangs in simulations: together or not at all under bayplan, half of each under a scheduler that does not know them.

What a gang can ask for is what bayplan's PodGroup can say; the decisions are the scheduler's own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.gangs.model import Gang
from bayplan.simulate.gangs import Gangs
from bayplan.simulate.results.comparison import Comparison, comparison_document
from bayplan.simulate.run import GangRun, Run
from bayplan.simulate.scenario.lines import ScenarioError
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.simulation import Simulation
from tests.builders.objects import simple_pod

# Four nodes in two racks, four zones' worth of GPUs each rack; two gangs of three, of different shapes, compete for
# four nodes.
TWO_GANGS = """
levels: [example.com/rack]
lasts: 5m
nodes:
- name: n
  count: 4
  machine: core:8 mem:32Gi gpu:1@numa
  labels: {example.com/rack: [r1, r2]}
workloads:
- {name: a, kind: Job, runs: 1m, replicas: 3, gang: {}, arrive: {every: 1s},
   pod: {resources: {cpu: 2, memory: 1Gi, example.com/gpu: 1}}}
- {name: b, kind: Job, runs: 1m, replicas: 3, gang: {}, arrive: {every: 1s},
   pod: {resources: {cpu: 3, memory: 1Gi, example.com/gpu: 1}}}
"""


def ran(tmp_path: Path, text: str, scheduler: str) -> Run:
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    return run_of(file, scheduler)


# Two racks of four nodes with a GPU each. One pod is on a node of r1 until 40 s, another on a node of r2 until 100 s.
TWO_RACKS = """
levels: [example.com/rack]
lasts: 5m
nodes:
- {name: n, count: 8, machine: core:8 mem:32Gi gpu:1@numa, labels: {example.com/rack: [r1, r2]}}
workloads:
- {name: short, kind: Job, runs: 39s, pod: {resources: &a-node {cpu: 2, memory: 1Gi, example.com/gpu: 1},
                                             nodeSelector: {example.com/rack: r1}}}
- {name: long, kind: Job, runs: 99s, pod: {resources: *a-node, nodeSelector: {example.com/rack: r2}}}
"""
A_POD = "pod: {resources: *a-node}"
EXAMPLES = Path(__file__).parents[3] / "examples" / "scenarios"


def run_of(scenario: Path, scheduler: str = "bayplan") -> Run:
    simulation = Simulation(read_scenario(scenario), scheduler)
    while simulation.step():
        pass
    return simulation.result()


def gangs_of(tmp_path: Path, *workloads: str, scheduler: str = "bayplan") -> list[GangRun]:
    """What becomes of gangs that come 5 s after the two pods."""
    written = "".join(f"- {{kind: Job, arrive: 5s, {each}}}\n" for each in workloads)
    return list(ran(tmp_path, TWO_RACKS + written, scheduler).gang_runs)


def test_the_example_of_patience_does_what_its_comments_say() -> None:
    in_time, too_late = run_of(EXAMPLES / "patience.yaml").gang_runs
    assert (in_time.arrived_at, in_time.domains) == (5.0, ("r1",))
    assert in_time.whole_at == pytest.approx(40.0, abs=0.1)
    assert (too_late.arrived_at, too_late.domains) == (60.0, ("r2", "r3"))
    assert too_late.whole_at == pytest.approx(80.0, abs=0.1)


@pytest.mark.parametrize(
    "patience, starts, domains",
    [
        pytest.param("", 5, ("r1", "r2"), id="who has none takes what there is"),
        pytest.param(", patience: {domains: 1, seconds: 20}", 25, ("r1", "r2"), id="it ends before a rack is free"),
        pytest.param(", patience: {domains: 1, seconds: 60}", 40, ("r1",), id="a rack is free before it ends"),
        pytest.param(", patience: {domains: 2, seconds: 60}", 5, ("r1", "r2"), id="two racks are good enough"),
    ],
)
def test_patience(tmp_path: Path, patience: str, starts: float, domains: tuple[str, ...]) -> None:
    (gang,) = gangs_of(tmp_path, f"name: g, replicas: 4, {A_POD}, gang: {{preferred: example.com/rack{patience}}}")
    assert gang.whole_at == pytest.approx(starts, abs=0.1)
    assert gang.domains == domains


def test_patience_counts_from_the_last_pod_that_arrives(tmp_path: Path) -> None:
    gang = "gang: {preferred: example.com/rack, patience: {domains: 1, seconds: 10}}"
    text = f"- {{name: g, arrive: {{every: 5s}}, replicas: 4, {A_POD}, {gang}}}"
    (found,) = ran(tmp_path, TWO_RACKS + text, "bayplan").gang_runs
    assert (found.arrived_at, found.domains) == (15.0, ("r1", "r2"))
    assert found.whole_at == pytest.approx(25.0, abs=0.1)


def test_a_patience_that_was_not_needed_is_no_event(tmp_path: Path) -> None:
    gang = "gang: {preferred: example.com/rack, patience: {domains: 1, seconds: 200}}"
    text = f"- {{name: g, kind: Job, arrive: 5s, runs: 1m, replicas: 4, {A_POD}, {gang}}}"
    assert ran(tmp_path, TWO_RACKS + text, "bayplan").ended_at < 110


def test_schedulers_that_do_not_know_gangs_have_no_patience_either(tmp_path: Path) -> None:
    gang = (
        f"name: g, replicas: 4, {A_POD}, gang: {{preferred: example.com/rack, patience: {{domains: 1, seconds: 60}}}}"
    )
    (found,) = gangs_of(tmp_path, gang, scheduler="blind")
    assert found.whole_at == pytest.approx(5.0, abs=0.1)


def test_an_elastic_gang_starts_with_its_minimum_and_the_others_join_it(tmp_path: Path) -> None:
    text = f"- {{name: g, arrive: 5s, replicas: 4, {A_POD}, gang: {{minimum: 2, required: example.com/rack}}}}"
    run = ran(tmp_path, TWO_RACKS + text, "bayplan")
    (gang,) = run.gang_runs
    assert gang.whole_at == pytest.approx(5.0, abs=0.1)
    assert (gang.started, len(gang.domains)) == (4, 1)
    assert run.all_running_at == pytest.approx(40.0, abs=0.1)


def test_segments_keep_apart(tmp_path: Path) -> None:
    segments = "segments: [{size: 2, level: example.com/rack, apart: true}]"
    (gang,) = gangs_of(tmp_path, f"name: g, replicas: 4, {A_POD}, gang: {{preferred: example.com/rack, {segments}}}")
    assert (gang.started, gang.domains) == (4, ("r1", "r2"))


def test_a_wish_that_was_given_up_is_told(tmp_path: Path) -> None:
    segments = "segments: [{size: 3, level: kubernetes.io/hostname, preferred: true}]"
    (gang,) = gangs_of(tmp_path, f"name: g, replicas: 3, {A_POD}, gang: {{{segments}}}")
    assert gang.started == 3
    assert len(gang.gave_up) == 1


def test_groups_have_shapes_of_their_own_and_some_of_them_may_be_enough(tmp_path: Path) -> None:
    """The second replica asks for more GPUs than any node has."""
    groups = """minimumGroups: 1, groups: [
      {name: first, required: example.com/rack, groups: [
        {name: leader, size: 1, pod: {resources: {cpu: 1, memory: 1Gi}}},
        {name: workers, size: 3, pod: {spec: {containers: [
          {name: main, resources: {limits: {cpu: 2, memory: 1Gi, example.com/gpu: 1}}}]}}}]},
      {name: second, size: 1, pod: {resources: {cpu: 1, memory: 1Gi, example.com/gpu: 2}}}]"""
    (gang,) = gangs_of(tmp_path, f"name: g, gang: {{required: example.com/rack, {groups}}}".replace("\n", " "))
    assert (gang.started, gang.domains) == (4, ("r1",))


def test_a_group_that_is_not_needed_starts_when_its_own_pods_have_arrived(tmp_path: Path) -> None:
    """One group of two is enough. The second has one pod too few at the end of the scenario."""
    groups = "groups: [{name: first, size: 2}, {name: second, size: 2}], minimumGroups: 1"
    text = f"- {{name: g, replicas: 4, arrive: {{every: 20s}}, {A_POD}, gang: {{{groups}}}}}"
    for lasts, started in (("50s", 2), ("5m", 4)):
        run = ran(tmp_path, TWO_RACKS.replace("lasts: 5m", f"lasts: {lasts}") + text, "bayplan")
        (gang,) = run.gang_runs
        assert gang.whole_at == pytest.approx(20.0, abs=0.1)
        assert gang.started == started
        reasons = [each.reason for each in run.waiting_pods]
        assert reasons == (["not all pods of their group have arrived"] if started == 2 else [])


def test_the_label_of_groups_is_not_for_workloads_to_give(tmp_path: Path) -> None:
    text = TWO_GANGS.replace("name: a,", "name: a, labels: {bayplan.io/group: x},")
    with pytest.raises(ScenarioError, match=r"workloads\[0\]\.gang: its groups give pods the label bayplan\.io/group"):
        ran(tmp_path, text, "bayplan")


def test_the_replacement_of_a_refused_pod_joins_its_gang(tmp_path: Path) -> None:
    """Binds that reach a kubelet together are taken by age: an older pod is in the zone that one of the gang was meant
    for, until 31 s.

    The other rack is free all the time, but the gang has begun in this one.
    """
    text = """
levels: [example.com/rack]
lasts: 2m
nodes:
- name: n
  count: 4
  machine: pack:2 core:8 mem:32Gi
  labels: {example.com/rack: [r1, r2]}
  kubelet: {topologyManagerPolicy: single-numa-node, cpuManagerPolicy: static, reservedSystemCPUs: "0"}
workloads:
- {name: older, kind: Job, runs: 29s, pod: {resources: {cpu: 2, memory: 1Gi}, nodeSelector: {example.com/rack: r1}}}
- {name: g, replicas: 4, gang: {required: example.com/rack}, pod: {resources: {cpu: 6, memory: 1Gi}, priority: 100}}
"""
    run = ran(tmp_path, text, "unordered")
    (gang,) = run.gang_runs
    assert [refusal.workload for refusal in run.refusals] == ["g"]
    assert (gang.started, gang.domains) == (4, ("r1",))
    assert gang.whole_at == pytest.approx(32.0, abs=0.1)


@pytest.mark.parametrize("placement, nodes", [("binpack", 1), ("spread", 2)])
def test_a_gang_is_packed_or_spread(tmp_path: Path, placement: str, nodes: int) -> None:
    text = f"- {{name: g, replicas: 2, pod: {{resources: {{cpu: 1, memory: 1Gi}}}}, gang: {{placement: {placement}}}}}"
    state = ran(tmp_path, TWO_RACKS + text, "bayplan").state
    assert len({pod.row for key, pod in state.pods.items() if key.startswith("default/g-")}) == nodes


def test_style_objective_and_the_choice_of_domains_reach_the_scheduler(tmp_path: Path) -> None:
    keys = "style: kueue, objective: [closest], domainPlacement: spread, placement: spread"
    file = tmp_path / "scenario.yaml"
    file.write_text(f"{TWO_RACKS}- {{name: g, replicas: 2, {A_POD}, gang: {{required: example.com/rack, {keys}}}}}")
    simulated = Gangs(read_scenario(file).workloads, (), ()).of(read_scenario(file).workloads[-1], 0)
    assert simulated is not None
    for number in range(2):
        simulated.arrive(simple_pod({"cpu": 1}, f"g-{number}"), 0.0)
    gang = simulated.as_gang()
    assert isinstance(gang, Gang)
    assert (gang.style, gang.objective[0].value, gang.roomiest, gang.spread) == ("kueue", "closest", True, True)


def test_the_same_scenario_gives_the_same_document(tmp_path: Path) -> None:
    scenario = read_scenario(EXAMPLES / "gang-shapes.yaml")
    first, second = (run_of(EXAMPLES / "gang-shapes.yaml") for _ in range(2))
    assert comparison_document(Comparison(scenario, (first,))) == comparison_document(Comparison(scenario, (second,)))
    assert [gang.started for gang in first.gang_runs] == [12, 8, 8]


def test_without_gangs_both_hold_half_of_what_they_need_and_wait_endlessly(tmp_path: Path) -> None:
    run = ran(tmp_path, TWO_GANGS, "blind")
    assert (run.gangs, run.gangs_whole, run.gangs_in_part) == (2, 0, 2)
    assert (run.running, run.finished, run.waiting) == (4, 0, 2)


def test_with_gangs_one_goes_after_the_other(tmp_path: Path) -> None:
    run = ran(tmp_path, TWO_GANGS, "bayplan")
    assert (run.gangs_whole, run.gangs_in_part, run.finished) == (2, 0, 6)


def test_a_gang_that_fits_no_domain_waits_whole_and_says_why(tmp_path: Path) -> None:
    text = TWO_GANGS.replace(
        "name: a, kind: Job, runs: 1m, replicas: 3, gang: {}",
        "name: a, replicas: 3, gang: {required: example.com/rack}",
    )
    run = ran(tmp_path, text, "bayplan")
    assert [(each.workload, each.pods) for each in run.waiting_pods] == [("a", 3)]
    assert run.waiting_pods[0].reason == "the gang needs 3 slots in one example.com/rack, but can get at most 2"


def test_gangs_of_a_workload_are_its_pods_in_their_order(tmp_path: Path) -> None:
    text = TWO_GANGS.replace(
        "replicas: 3, gang: {}, arrive: {every: 1s}", "replicas: 4, gang: {size: 2, preferred: example.com/rack}"
    )
    # A node holds one of the two pods.
    for level, domains in {"example.com/rack": 1.0, "rack": 1.0, "node": 2.0, "numa": 2.0}.items():
        written = text.replace("preferred: example.com/rack", f"preferred: {level}")
        run = ran(tmp_path, written, "bayplan")
        assert (run.gangs, run.gangs_whole, run.domains_per_gang) == (4, 4, domains)


@pytest.mark.parametrize(
    "gang, problem",
    [
        ("{size: 2}", "workloads[0].gang.size: 2 does not divide the 3 replicas"),
        ("{size: 0}", "workloads[0].gang.size"),
        ("{size: -3}", "workloads[0].gang.size: -3 is negative: must be 0 or more"),
        ("{size: many}", 'workloads[0].gang.size: "many" is not allowed: must be a whole number'),
        ("3", 'workloads[0].gang: "3" is not allowed: must be keys and values: topology, size, minimum, '),
        ("{required: row}",
         'gang.required: "row" is not a level; the topology has example.com/rack, kubernetes.io/hostname'),
        ("{sise: 3}", "workloads[0].gang.sise: is unknown: did you mean size?"),
        ("{topology: network}",
         "workloads[0].gang.topology: is not allowed in a scenario: the levels of the file are the only topology"),
        ("{pod: {resources: {cpu: 1}}}",
         "workloads[0].gang.pod: is not allowed here: the pod of a gang stands beside it, in the workload"),
        ("{minimum: 4}", "workloads[0].gang.minimum: 4 is not between 0 and the size 3"),
        ("{placement: tight}", 'workloads[0].gang.placement: "tight" must be one of binpack, spread'),
        ("{domainPlacement: tight}", 'workloads[0].gang.domainPlacement: "tight" must be one of binpack, spread'),
        ("{style: slurm}", 'workloads[0].gang.style: "slurm" must be one of bayplan, '),
        ("{objective: [cheapest]}", 'workloads[0].gang.objective: "cheapest"'),
        ("{patience: {domains: 1, seconds: 60}}",
         "workloads[0].gang.patience: is for a preferred level; the gang has none"),
        ("{patience: {domains: 0, seconds: 60}}", "workloads[0].gang.patience.domains: 0 must be 1 or more"),
        ("{patience: {domains: 1, seconds: 1m}}",
         'workloads[0].gang.patience.seconds: "1m" is not allowed: must be a number'),
        ("{patience: {domains: 1}}", "workloads[0].gang.patience.seconds: is missing"),
        ("{patience: {time: 1}}", "workloads[0].gang.patience.time: is unknown: must be one of domains, seconds"),
        ("{segments: [{size: 2, level: example.com/rack}]}", "workloads[0].gang.segments: size 2 does not divide 3"),
        ("{segments: [{size: 3, levle: example.com/rack}]}",
         "workloads[0].gang.segments[0].levle: is unknown: did you mean level?"),
        ("{groups: [{size: 3}]}", "workloads[0].gang.groups[0].name: is missing"),
        ("{groups: [{name: A, size: 3}]}", 'workloads[0].gang.groups[0].name: "A" must be lower-case letters'),
        ("{groups: [{name: a, size: 2}]}",
         "workloads[0].gang: 2, the pods of all groups, does not divide the 3 replicas"),
        ("{groups: [{name: a, size: 3, pod: {resources: {gpu: 1}}}]}",
         "gang.groups[0].pod.resources.gpu: is no resource"),
        ("{groups: [{name: a, size: 2}, {name: a, size: 1}]}",
         'workloads[0].gang.groups: "a" is the name of two groups'),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, gang: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        ran(tmp_path, TWO_GANGS.replace("gang: {}", f"gang: {gang}", 1), "bayplan")
    assert problem in str(raised.value)
