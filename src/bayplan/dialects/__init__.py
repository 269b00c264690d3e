"""How each system writes gangs, one folder each.

In: a group object and the pods that name it. Out: the `Gang` that bayplan places, and the status of the object, where
the system has one. Start at `dialect.py`; `registry.py` lists all of them.
"""
