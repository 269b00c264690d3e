"""Kueue: topology-aware scheduling of pod sets (`style.py`, rules in `tas/`)."""
