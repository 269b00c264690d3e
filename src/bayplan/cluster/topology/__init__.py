"""The tree of domains over the nodes.

Topology objects, HyperNodes and node labels come in; a permutation of rows in which each domain is a slice goes out.
Start reading at `tree.py`.
"""
