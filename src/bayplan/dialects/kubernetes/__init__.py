"""Kubernetes' PodGroup and Workload (`scheduling.k8s.io`): start at `pod_group.py`."""
