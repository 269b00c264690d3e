"""The cluster at a glance: every node's NUMA summary, and everything that waits, grouped by cause."""
