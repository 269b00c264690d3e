"""Random pods, decided by bayplan and by the stock kube-scheduler in the same state of the same cluster.

    python -m tests.kubernetes.differential --pods 10000 --seed 1

`pods.py` draws nodes, volumes and pods; `comparing.py` asks both and compares.
"""
