"""Long-running programs, one folder each: scheduler, extender, pod grouper, agent, virtual kubelets, web page.

In: watch events and requests. Out: binds, evictions, events, statuses, reports and answers.
Each wires `edges/` to the rooms below, which do no I/O. Start at `scheduler/service.py`.
"""
