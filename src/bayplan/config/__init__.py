"""Configuration files into profiles and settings.

A KubeSchedulerConfiguration or Volcano's own configuration comes in; profiles, service settings and remarks go out.
Start at `configuration.py`.
"""
