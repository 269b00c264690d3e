"""The integer program: a problem that the quick searches left open in, an answer with its proof out.

Start at `narrowed.py`.
"""
