"""The scheduler without its edges: news about the cluster in, actions out. Start reading at `dispatcher.py`."""
