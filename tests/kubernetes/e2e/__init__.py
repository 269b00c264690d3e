"""Kubernetes' own end-to-end specs of scheduling, with bayplan as `default-scheduler`.

    python -m tests.kubernetes.e2e [--focus REGEXP] [--stock]

`go/` builds the specs from the Go module registry, in the control plane's version; `running.py` starts the cluster that
they run against: a real API server, the real controller manager, virtual kubelets, bayplan. `outcomes.py` reads what
each spec came to.
"""
