"""KAI-Scheduler's pod grouper, followed to the letter: what KAI makes of a pod and its owners.

Start reading at `compat/kai/grouping/table.py`.

For clusters that move from KAI and want to keep its groups, oddities included; recordings of KAI's own grouper hold
every kind to it (`tests/conformance/test_pod_grouper.py`). Where bayplan thinks otherwise, `mode: bayplan` does
otherwise.
"""
