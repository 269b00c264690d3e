"""The `bayplan` command, also called as `kubectl bayplan`: one file for each sub-command.

Arguments come in, the rooms below do the work, and text, JSON or a picture goes out. Commands that run a service are in
`services/`. Start at `program.py`.
"""
