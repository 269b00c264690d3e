"""Nodes as NumPy columns, with a log of the rows that changed."""
