"""Preemption for one pod: a pod that fits nowhere comes in, the node and the cheapest victims there go out.

Start at `plan.py`.
"""
