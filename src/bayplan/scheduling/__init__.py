"""One pod: from a waiting pod to a `Decision`.

The cluster's state, a pod and a profile come in; a node with its zones, or the data behind a "no", goes out. Start reading at `cycle.py`.
"""
