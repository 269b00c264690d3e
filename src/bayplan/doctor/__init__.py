"""What is wrong with an installation, and how to repair it.

In comes a cluster, read once (`reading.py`); out goes a `Diagnosis` (`diagnosis.py`). Each check in `checks/` is a pure
function over what was read. Start at `diagnosis.py`.
"""
