"""One gang: pods that start together or not at all.

A `Gang` and the cluster come in; a `GangDecision` with a seat for every pod, or the reason against it, goes out. Start reading at `cycle.py`.
"""
