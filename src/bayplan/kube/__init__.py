"""What Kubernetes says: quantities, wire structs (one module per API group), kubeconfig, client, watch and lease.

Bytes of the API come in, typed values go out to `bayplan.cluster`; nothing is decided here. Start at
`files.py` for files, at `client/watch.py` for a running cluster.
"""
