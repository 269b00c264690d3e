"""Victims of a preemption: what pods on a node free and cost comes in,
the cheapest set whose removal suffices goes out. Start at `victims.py`.
"""
