"""What if the cluster were different: an `ObjectSet` and a `WhatIf` come in, the objects of that cluster go out.

Everything above sees objects like any others. Start at `changes.py`.
"""
