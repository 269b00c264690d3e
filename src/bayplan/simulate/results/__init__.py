"""Runs of one scenario side by side: as text, as a document for programs, as a page and as a picture.

In: a `Run` for each scheduler. Out: text, JSON, HTML or SVG, byte for byte the same for equal runs. Start at
`comparison.py`.
"""
