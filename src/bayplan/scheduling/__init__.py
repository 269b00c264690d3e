"""From a waiting pod to a `Decision`: queue, cycle, gangs, preemption, profiles. Start reading at `cycle.py`.

State and pod come in, a decision with its reasons goes out; no I/O, no clock, no chance that was not passed in.
"""
