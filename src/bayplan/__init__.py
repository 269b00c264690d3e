"""bayplan places pods by topology, and explains every "no".

In shipping, the *bay plan* is the drawing that says which container stands in which bay, row and tier. bayplan makes
that drawing for a Kubernetes cluster, and its one idea is that the building is **one tree with one engine**:

    datacentre > zone > block > rack > node > NUMA zone > device

How many pods of a gang a rack can hold is the sum over its nodes of how many pods the kubelet would really admit there
under its Topology Manager policy. Gangs and NUMA zones are two storeys of one question, not two systems.

Start reading at `bayplan.scheduling.cycle`: `schedule_one()` takes the state of the cluster and a pod, and gives a
`Decision`.
"""

__version__ = "0.1.0"
