"""Nodes as NumPy columns.

Node objects and zone amounts come in as rows; arrays with the node axis last and a log of changed rows go out. Start
reading at `columns.py`.
"""
