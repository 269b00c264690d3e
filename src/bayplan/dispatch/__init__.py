"""The scheduler without its edges: no I/O, no clock, no threads.

Watch events come in; actions go out: bind, refuse, complete, release. Start reading at `dispatcher.py`.
"""
