"""What the commands share: reading the cluster, deciding, output."""
