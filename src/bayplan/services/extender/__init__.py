"""`bayplan extender`: NUMA awareness for an unmodified kube-scheduler, over HTTP.

The scheduler's requests come in (`server.py`). The same columns, plugins and answers as in `bayplan scheduler` judge
them (`cluster.py`, `filtering.py`, `scores.py`, `preempting.py`), and `binding.py` binds. Start reading in
`service.py`.
"""
