"""Rules of other systems as they are, defects included.

In comes what bayplan's own rules get, out goes what the other system would answer.

Nothing imports this room: `bayplan.extensions` finds it by the entry points in `pyproject.toml`, and without it all of
bayplan's own works. Each folder is one system; start at its `style.py`, `plugin.py` or `configuration.py`.
"""
