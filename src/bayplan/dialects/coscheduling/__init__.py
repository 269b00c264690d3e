"""scheduler-plugins' coscheduling PodGroup (`scheduling.x-k8s.io/v1alpha1`): the smallest dialect; read it first."""
