"""Measurements, not tests: `make bench` prints one line a figure, `bench NAME: VALUE UNIT`,
medians of repeated runs.
"""
