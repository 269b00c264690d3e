"""Readers of each system's gangs, one folder each. They make the `Gang` that bayplan places. Start at `dialect.py`."""
