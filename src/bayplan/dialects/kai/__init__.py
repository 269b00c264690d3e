"""KAI-Scheduler's PodGroup (`scheduling.run.ai/v2alpha2`): start at `pod_group.py`."""
