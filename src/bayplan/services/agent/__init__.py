"""The node agent: what `bayplan agent` runs on every node. Start reading in `agent.py`."""
