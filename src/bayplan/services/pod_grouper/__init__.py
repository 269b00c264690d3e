"""The pod grouper: gangs for pods whose owners mean one. Start reading at `grouper.py`."""
