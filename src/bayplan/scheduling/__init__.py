"""One pod: from a waiting pod to a `Decision`.

In come the cluster state, a pod and a profile. Out goes a node with its zones, or the data behind a "no". Start at
`cycle.py`.
"""
