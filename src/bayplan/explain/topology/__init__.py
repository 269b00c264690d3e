"""Blocks and racks as text and pictures."""
