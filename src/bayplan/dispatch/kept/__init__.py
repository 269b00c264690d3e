"""Room that is kept for units: for nominated ones while victims leave, and for members of gangs that are still to come.

Comes in: units and their seats. Goes out: seats that are assumed in the cluster's state, so that all others see them
as taken. Start reading at `seats.py`.
"""
