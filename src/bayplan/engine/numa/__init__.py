"""Arithmetic on NUMA zones over all nodes: admission, placement and scores."""
