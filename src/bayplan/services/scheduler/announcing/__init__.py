"""What users are told: why pods wait, what is wrong with their objects, and how far each gang has come.

In: units that the dispatcher could not place, and invalid or unsupported objects. Out: events, conditions and the
status of PodGroups. Start at `announcer.py`.
"""
