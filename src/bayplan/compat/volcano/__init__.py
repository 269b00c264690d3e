"""Volcano: its numa-aware plugin (`plugin.py`, rules in `numa/`) and its scheduler
configuration (`configuration.py`).
"""
