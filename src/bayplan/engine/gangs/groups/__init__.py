"""Groups inside a gang: parts that each take a domain in, a domain for each group and pods on its nodes out.

Start at `packing.py` (equal pods) or `best_fit.py` (different pods).
"""
