"""Volcano's PodGroup, Job and network topology: start at `pod_group.py`."""
