"""What users are told: why pods wait, what is wrong with their objects, and the progress of each gang.

In: units that the dispatcher could not place, and invalid or unsupported objects. Out: events, conditions and the
status of PodGroups. Start at `announcer.py`.
"""
