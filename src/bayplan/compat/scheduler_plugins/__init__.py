"""scheduler-plugins: NodeResourceTopologyMatch as it answers (`plugin.py`, `filter.py`) and its caches (`cache/`)."""
