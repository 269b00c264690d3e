"""The node agent: what a node really has and who holds it, from sysfs and the kubelet to a NodeResourceTopology."""
