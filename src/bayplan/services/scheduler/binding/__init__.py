"""From a decision to pods with a node: annotations, claims, and binds with known outcomes.

In: `Bind` actions of the dispatcher. Out: binds, events, metrics, and each unit's outcome for the dispatcher. Start at
`unit_binder.py`.
"""
