"""Objects as Kubernetes and other systems write them: one module for each API group and version.

A module is named after its system, its API group and the version. Modules without a system are Kubernetes' own groups
that no other system has: `core_v1`, `storage_v1`. Five systems have a PodGroup:

    bayplan_v1alpha1             bayplan.io
    k8s_scheduling_v1beta1       scheduling.k8s.io
    kai_scheduling_v2alpha2      scheduling.run.ai
    volcano_scheduling_v1beta1   scheduling.volcano.sh
    coscheduling_v1alpha1        scheduling.x-k8s.io, of scheduler-plugins
"""
