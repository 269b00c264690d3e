"""Commands that run a service until a signal ends it, and those that belong to one.

Flags come in and become the settings of a service; `bayplan/services/` does the work.
"""
