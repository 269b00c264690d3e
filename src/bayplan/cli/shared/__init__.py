"""What the commands share: options, reading the cluster, output."""
