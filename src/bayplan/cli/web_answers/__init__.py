"""What `bayplan web` shows: one state of the cluster in, the documents of every screen out. Start at `answers.py`."""
