"""KAI-Scheduler: its gang placement (`style.py`, rules in `scheduler/`) and its pod grouper (`grouping/`)."""
