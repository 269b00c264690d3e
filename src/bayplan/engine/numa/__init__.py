"""Arithmetic on NUMA zones, for all nodes at once.

Columns and a request come in; verdicts, zones and scores per node go out. Start reading at `admission.py`, then
`placement.py`.
"""
