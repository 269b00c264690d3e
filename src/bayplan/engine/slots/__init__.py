"""How many pods of a class each node's kubelet would admit."""
