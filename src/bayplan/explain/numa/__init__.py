"""A node's NUMA zones as text and pictures."""
