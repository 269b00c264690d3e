"""What `bayplan kubelets` is asked to stand for: which nodes, how late and how fully they report, how long pods run.

`layout.py` makes the nodes from a few words or a scenario, `cli/kubelets.py` takes the rest from its options, and tests write
it down directly. `run.py` is next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bayplan.simulate.scenario.model import Seconds, SimulatedNode

RUNS_FOR_ANNOTATION = "bayplan.io/runs-for"
# Every object that we create carries it, and nothing without it is ever changed or removed.
OURS_LABEL = "bayplan.io/virtual-kubelet"

HEARTBEAT: Seconds = 10.0
SUMMARY_EVERY: Seconds = 10.0


@dataclass(frozen=True)
class KubeletsSettings:
    """Everything that does not change while the kubelets run.

    `report_delay` lies between a change on a node and the report that shows it. Reports are `complete` with what bayplan reads (each pod's
    place, CPUs and devices by name) or have only what node agents write today. `runs_for` ends pods that do not say so themselves.
    A `heartbeat` of 0 writes each Lease once. With `keep` everything stays in the cluster at the end.
    """

    nodes: tuple[SimulatedNode, ...]
    report_delay: Seconds = 0.0
    complete: bool = True
    runs_for: Seconds | None = None
    heartbeat: Seconds = HEARTBEAT
    keep: bool = False
    summary_every: Seconds = SUMMARY_EVERY
    writers: int = 64

    @property
    def kinds(self) -> Mapping[str, int]:
        """How many nodes there are of each group, in the order of the nodes."""
        return dict(Counter(node.group for node in self.nodes))
