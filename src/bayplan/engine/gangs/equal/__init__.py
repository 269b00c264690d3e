"""Equal pods: slots per node in, pods per node out, by counting alone and always exact about whether they fit.

Start at `equal_pods.py`.
"""
