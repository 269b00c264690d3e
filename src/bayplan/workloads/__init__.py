"""From a workload to its pods: what the controller of each kind would create, for planning before there is anything.

Start in `workloads/kinds.py`, the table of kinds; `workloads/plan.py` makes pods and gangs of an object. A new kind is one row there, and one
small function where its controller does more than a grouping rule can say.
"""
