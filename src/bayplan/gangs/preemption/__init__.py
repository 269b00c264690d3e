"""Preemption for a whole gang: one that fits nowhere comes in, the cheapest victims and its seats without them go out.

Start at `plan.py`.
"""
