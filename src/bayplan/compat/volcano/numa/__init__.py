"""How Volcano's `numa-aware` plugin judges one node, with its mistakes: for `compatibility: volcano` and for recordings
of it.

Start at `predicate.py`: one pod on one node, from the first container to the last. All of it is arithmetic on plain
sets. What bayplan itself believes is in `engine/numa/admission.py` and `engine/kubelet/`.
"""
