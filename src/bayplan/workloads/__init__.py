"""From a workload to its pods: what the controller of each kind would create, for planning.

Start at `plan.py`; `kinds.py` is the table of kinds. A new kind is one row there, and one function if its controller
does more than a grouping rule can say.
"""
