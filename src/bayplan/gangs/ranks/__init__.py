"""The order of a gang's pods.

In come pods with indices, labels and parallel groups. Out go ranks and segments. Start at `ranks.py`.
"""
