"""How Volcano's `numa-aware` plugin judges one node, with its mistakes: for `compatibility: volcano` and for recordings
of it.

    machine.py     CPUs as a Numatopology object lists them
    cpu_picker.py  which CPUs are taken (a copy of the kubelet's picker that went its own way)
    cpus.py        hints for a number of CPUs, and the allocation on a hint
    policy.py      hints merged, and what each policy admits
    predicate.py   the gate, and one pod on one node from the first container to the last
    score.py       the fewer NUMA nodes, the higher
    books.py       pods that were scheduled and that the node does not list yet

All of it is arithmetic on plain sets. What bayplan itself believes is in `engine/numa/admission.py` and
`engine/kubelet/`; `plugins/volcano_numa_aware.py` chooses between the two.
"""
