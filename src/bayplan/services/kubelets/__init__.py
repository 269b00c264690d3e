"""Virtual kubelets as nodes of a real API server: what `bayplan kubelets` runs. Start reading in `run.py`."""
