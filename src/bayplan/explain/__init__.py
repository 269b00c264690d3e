"""A `Decision` into sentences, tables and pictures, for terminals, events and pages.

The reasons come in as data from `bayplan.scheduling`; nothing is placed here. Start at `why.py`.
"""
