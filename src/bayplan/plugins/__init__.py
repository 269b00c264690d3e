"""Filters and scores, one file for each name that users write in a scheduler configuration.

In come the cluster state and a class of pods, out go codes and scores for all nodes. Start at `registry.py`.
"""
