"""`bayplan web`: a read-only page about the cluster. Start at `server.py`; `cli/web_answers/` answers its questions."""
