"""The tree of domains over the nodes, from Topology objects or HyperNodes."""
