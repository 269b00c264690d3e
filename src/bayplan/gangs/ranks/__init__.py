"""The order of a gang's pods.

Pods with indices, labels and parallel groups come in; ranks, and the segments that follow from them, go out. Start reading at `ranks.py`.
"""
