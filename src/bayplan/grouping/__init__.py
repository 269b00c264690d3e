"""The decisions of the pod grouper: from a pod and its owners to the PodGroup that should exist. Start at `group.py`.

Users annotate the workload they already have; its kind says what its pods mean together. Kinds are data (`kinds.py`, in
the form of `rules.py`, which users' rule files share). Preferences are annotations (`annotations.py`). The outcome is
an object to apply and labels for the pod (`grouping.py`). Nothing here reads a cluster: lookups are returned as a
`Question` (`grouping.py`).
"""
