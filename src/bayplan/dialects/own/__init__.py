"""bayplan's own PodGroup (`bayplan.io/v1alpha1`): start at `pod_group.py`. `reader.py` plans gangs without pods."""
