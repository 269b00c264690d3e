"""The scheduler without its edges: no I/O, no clock, no threads.

News about the cluster comes in; actions go out: bind, refuse, complete, release. Start reading at `dispatcher.py`.
"""
