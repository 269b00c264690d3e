"""How each system writes gangs, one folder each.

In: a group object and the pods that name it. Out: the `Gang` that bayplan places, and the object's status.
Start at `dialect.py`; `registry.py` lists all of them.
"""
