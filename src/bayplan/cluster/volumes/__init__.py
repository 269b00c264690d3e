"""Volumes: what claims, persistent volumes, classes and CSI drivers say about where a pod can run.

In come the objects (`catalogue.py`), out goes what a node's answer may depend on for a pod (`needs.py`), which becomes
part of its class. Start at `catalogue.py`.
"""
