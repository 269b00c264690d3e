"""Arithmetic on columns, in pure functions: kubelet admission, scores, capacity, gang search and shortfall.

Columns and a request come in, masks and numbers per node go out to `bayplan.plugins`; no policy has a name here.
Start at `numa/admission.py` for a pod, at `gangs/search.py` for a gang.
"""
