"""`bayplan kubelets`: virtual kubelets as nodes of a real API server. Start reading at `run.py`."""
