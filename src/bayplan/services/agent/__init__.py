"""The node agent: from sysfs and the kubelet to a NodeResourceTopology. Start reading at `agent.py`."""
