"""The pod grouper: puts pods into gangs by their owners. Start reading at `grouper.py`."""
