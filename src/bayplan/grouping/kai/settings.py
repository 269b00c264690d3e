"""What KAI's pod grouper can be told: names of labels, where defaults per kind are kept, and two switches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KaiSettings:
    """KAI's own settings, with its defaults.

    `defaults_namespace` and `defaults_name` lead to a ConfigMap with priority class and preemptibility per kind; empty if there is none.
    """

    queue_label: str = "kai.scheduler/queue"
    node_pool_label: str = "kai.scheduler/node-pool"
    search_for_legacy_groups: bool = False
    gangs_of_knative: bool = False
    defaults_namespace: str = ""
    defaults_name: str = ""
