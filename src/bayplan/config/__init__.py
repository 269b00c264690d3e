"""Configuration files into profiles and settings: KubeSchedulerConfiguration, and Volcano's own."""
