"""One file for each behaviour users know by its name, and the registry in which a profile finds it.

A plugin turns its arguments into questions for `bayplan.engine`, and keeps no state of its own.
"""
