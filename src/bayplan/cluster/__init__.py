"""The cluster as columns: pod classes, resources, NUMA zones, the topology tree, and what changed since last time.

Typed objects come in from `bayplan.kube`, NumPy arrays with the node axis last go out to `bayplan.engine`.
Start at `state.py`.
"""
