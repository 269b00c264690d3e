"""The placement style `kai`: gangs get the nodes that KAI-Scheduler would give them, its defects included.

Start in `rounds.py`. `model.py` says what must be known, `allocate.py` walks down a job's tree of sub-groups,
`subset_nodes.py` chooses the domains to try (with `tree.py`), `order.py` breaks ties, `consolidate.py` makes room by
moving pods, and `statement.py` is where all of them write.

The style is there for those who come from KAI and want the answers they know. It follows KAI after v0.13. bayplan's own
search finds more; what this one misses is told where it is missed: `subset_nodes.py` for domains, `allocate.py` for
siblings. Not reproduced: shares of GPUs, MIG, dynamic resources, fair shares between queues, and the actions reclaim
and preempt.
"""
