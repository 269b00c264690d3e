"""How many pods of a class each node's kubelet would admit, one after the other.

Columns and a class come in; a count per node goes out. Start reading at `slots.py`.
"""
