"""One gang: pods that start together or not at all.

In come a `Gang` and the cluster. Out goes a `GangDecision`: a seat for every pod, or the reason why not. Start at
`cycle.py`.
"""
