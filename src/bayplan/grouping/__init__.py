"""The pod grouper's judgement: from a pod and its owners to the PodGroup that should exist. Start reading at `grouping/group.py`.

Users annotate the job they already have; what its pods mean together follows from the job's kind. Kinds are data (`grouping/kinds.py`, in the form of
`grouping/rules.py`, which users' rule files share), wishes are annotations (`grouping/annotations.py`), and the outcome is an object to apply and labels for the
pod (`grouping/grouping.py`). In `kai` mode KAI's own pod grouper is followed to the letter instead (`kai/`). Nothing here reads or writes a cluster: what else
must be known is asked for as a `Question` (`grouping/questions.py`). The pod grouper service is next.
"""
