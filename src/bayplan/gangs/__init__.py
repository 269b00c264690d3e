"""One gang: its model, its cycle, and where its members sit. Start reading at `cycle.py`."""
