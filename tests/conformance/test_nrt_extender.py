"""scheduler-plugins' recorded scheduling cases through the extender's wire: the same nodes, reasons and scores.

Whether a pod lands is compared where kube-scheduler runs no other plugin; filter and scores depend on none in any case.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.kube.wire.core_v1 import Node
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.profile import Profile
from tests.builders.extenders import running_extender
from tests.conformance.test_nrt import differs, upstream_plugin

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance


@pytest.mark.fixture_files("nrt/schedule_integration", label="extender")
def test_schedule_through_the_extender(conformance: Conformance) -> None:
    conformance.check_each(lambda case: asyncio.run(problem_of(case)))


async def problem_of(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    plugin = upstream_plugin(given["scoring_strategy"])
    profile = Profile("default-scheduler", (plugin,), ((plugin, 1),))
    names = [each["metadata"]["name"] for each in given["nodes"]]
    nodes = [msgspec.convert(each, Node) for each in given["nodes"]]
    reports = [msgspec.convert(each, NodeResourceTopology) for each in given["nrts"]]
    async with running_extender(*reports, nodes=nodes, profile=profile) as extender:
        body = {"Pod": given["pod"], "NodeNames": names}
        filtered = await extender.ask("filter", body)
        scored = await extender.ask("prioritize", {**body, "NodeNames": filtered["NodeNames"]})
    refused = {**filtered["FailedNodes"], **filtered["FailedAndUnresolvableNodes"]}
    verdicts: dict[str, Any] = {name: {"allowed": True} for name in filtered["NodeNames"]}
    for name, reason in refused.items():
        # A nearest miss adds what is missing to the reason.
        verdicts[name] = {"allowed": False, "code": "Unschedulable", "reason": reason.partition(": ")[0]}
    scores = {each["Host"]: each["Score"] for each in scored}
    in_ten_steps = {name: (score * 20 + 100) // 200 for name, score in expected["scores"].items()}
    lands = expected["pod_lands_on_one_of"]
    if given["only_nrt_plugin"] and not set(lands or ()) <= set(filtered["NodeNames"]):
        return f"{lands} recorded, {filtered['NodeNames']} left"
    if len(set(in_ten_steps.values())) == 1 and len(set(scores.values())) == 1:
        scores = in_ten_steps  # upstream gives pods that it does not score 100 on every node, which ranks nothing
    return differs(verdicts, expected["filter"]) or differs(scores, in_ten_steps)
