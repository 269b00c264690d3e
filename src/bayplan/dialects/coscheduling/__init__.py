"""scheduler-plugins' coscheduling PodGroup (`scheduling.x-k8s.io/v1alpha1`): the smallest dialect, and a good one to read first."""
