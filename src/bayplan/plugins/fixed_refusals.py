"""What a relation plugin said about one pod, as a filter for its class and for classes like it.

The search for remedies asks "what if the pod asked for less?" in terms of classes; the pods on the nodes stay as they are meanwhile, and so does
what they say.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Codes, Rows
from bayplan.plugins.base import FilterPlugin, of_one_node


@dataclass(frozen=True, eq=False, slots=True)
class FixedRefusals:
    """Another plugin's codes for every row, whatever the class."""

    plugin: FilterPlugin
    codes: Codes
    reads_usage: bool = False

    @property
    def name(self) -> str:
        """The plugin's own."""
        return self.plugin.name

    def applies(self, pod: PodClass) -> bool:
        """Always."""
        return True

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes:
        """What the plugin said."""
        return self.codes[rows]

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        """The same for one node."""
        return of_one_node(self.refusals, state, pod, row)

    def cause(self, pod: PodClass, code: int) -> str:
        """The plugin's words."""
        return self.plugin.cause(pod, code)
