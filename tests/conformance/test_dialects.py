"""How other systems write gangs, as recorded: Kueue's encoding of assignments, and what Volcano's admission has against
a Job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.dialects.volcano.job import partition_problem, tiers_problem, topology_policy_problem
from bayplan.kube.wire.core_v1 import PodSpec
from bayplan.kube.wire.kueue_v1beta2 import Assignment, TopologyAssignment, decoded, encoded, encoded_in_runs
from bayplan.kube.wire.volcano_batch_v1alpha1 import Task
from bayplan.kube.wire.volcano_scheduling_v1beta1 import NetworkTopology

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

Json = dict[str, Any]


@pytest.mark.fixture_files("kueue/assignment_encoding", chunks=1)
def test_kueue_encoding(conformance: Conformance) -> None:
    conformance.check_each(encoding_problem)


def encoding_problem(case: Case) -> str | None:
    plain = msgspec.convert(without_nulls(case["internal"]), Assignment)
    wire = msgspec.convert(without_nulls(case["v1beta2"]), TopologyAssignment)
    if decoded(wire) != plain:
        return f"read as {decoded(wire)}, expected {plain}"
    counts = [domain.count for domain in decoded(wire).domains]
    if counts != case.get("podCounts", counts) or len(counts) != case.get("totalDomainCount", len(counts)):
        return f"counted {counts}"
    in_runs, only_read = "/prefix-runs/" in case["id"], "FromInternal" not in case["source"]["test"]
    if only_read and not in_runs:
        return None
    written = encoded_in_runs(plain) if in_runs else encoded(plain)
    return None if written == wire else f"written as {msgspec.to_builtins(written)}, expected {case['v1beta2']}"


def without_nulls(written: Json | None) -> Json:
    return {key: value for key, value in (written or {}).items() if value is not None}


@pytest.mark.fixture_files("volcano/job_admission", chunks=1)
def test_volcano_job_admission(conformance: Conformance) -> None:
    conformance.check_each(admission_problem)


def admission_problem(case: Case) -> str | None:
    told, expected = admission_message(case["inputs"]), case["expected"]
    if "message" in expected:
        return None if told == expected["message"] else f'said "{told}", expected "{expected["message"]}"'
    part = expected["message_contains"]
    fits = part in told and bool(told) == bool(part)
    return None if fits else f'said "{told}", expected "{part}" in it'


def admission_message(inputs: Json) -> str:
    match inputs["op"]:
        case "task_topology_policy":
            return topology_policy_problem(inputs["topologyPolicy"], pod_spec(inputs), inputs["task_index"])
        case "partition_policy":
            return partition_problem(msgspec.convert(inputs["task"], Task), inputs["job"])
    return tiers_problem(msgspec.convert(inputs["networkTopology"], NetworkTopology | None))


def pod_spec(inputs: Json) -> PodSpec:
    containers, init = (
        [{"resources": each} for each in inputs.get(key) or ()] for key in ("containers", "initContainers")
    )
    return msgspec.convert({"containers": containers, "initContainers": init}, PodSpec)
