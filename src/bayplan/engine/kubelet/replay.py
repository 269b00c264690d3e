"""One pod, one node, complete knowledge: what the kubelet answers, step by step as the kubelet does it.

`admit` is the whole story. The Topology Manager collects hints (device, cpu, memory, in this order), merges them and
lets its policy judge; then the managers hand out devices, CPUs and memory, in the same order, container by container.
At container scope this happens for one container after the other, each seeing what the previous ones took, without
going back. At pod scope there is one merge for the sum. Policy none skips the merge and still can fail while handing
out.

Not part of it is the kubelet's last check, whether the pod fits the node's allocatable in sum; the caller knows that.
It comes after all this, so a pod that fails both is named by what fails here.
"""

from __future__ import annotations

from bayplan.cluster.pods.request import CPU, ContainerRequest, PodRequest
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.engine.kubelet.cpu import (
    CpuLedger,
    allocate_cpus,
    cpu_hints,
    exclusive_cpus,
    exclusive_cpus_of_pod,
)
from bayplan.engine.kubelet.devices import (
    DeviceLedger,
    allocate_devices,
    device_hints,
    device_requests,
    device_requests_of_pod,
)
from bayplan.engine.kubelet.masks import subsets, zones_in
from bayplan.engine.kubelet.memory import (
    MemoryLedger,
    allocate_memory,
    manages,
    memory_hints,
    memory_requests,
    memory_requests_of_pod,
)
from bayplan.engine.kubelet.merge import NO_POLICY, Hint, ProviderHints, admits, merge
from bayplan.engine.kubelet.nearest_miss import Need, nearest_miss
from bayplan.engine.kubelet.node import NodeKnowledge
from bayplan.engine.kubelet.one_zone import one_zone_for_all
from bayplan.engine.kubelet.pod_level import (
    allocate_pod_cpus,
    allocate_pod_memory,
    cpu_lot_problem,
    memory_lot_problem,
    pod_cpus,
    pod_memory,
)
from bayplan.engine.kubelet.verdict import (
    TOPOLOGY_AFFINITY_ERROR,
    Admission,
    ContainerPlacement,
    ManagerRefused,
    undecided,
)


def admit(node: NodeKnowledge, pod: PodRequest) -> Admission:
    """The kubelet's answer for this pod on this node, with every container's place or with the reason against it."""
    return _Replay(node, pod).run()


class _Replay:
    """The ledgers of one admission and its progress, so that a refusal can say where it happened."""

    def __init__(self, node: NodeKnowledge, pod: PodRequest) -> None:
        self.node = node
        self.pod = pod
        self.devices = DeviceLedger()
        self.cpus = CpuLedger(node.free_cpus)
        self.memory = MemoryLedger.of(node)
        self.hints: dict[str, Hint] = {}
        self.stage = ""
        self.container = ""
        self.divides_a_lot = pod.pod_level is not None and node.settings.pod_level_managers

    def run(self) -> Admission:
        try:
            if self.node.settings.policy is Policy.NONE:
                self.hand_out_container_by_container(NO_POLICY)
            elif self.node.settings.scope is Scope.POD:
                self.admit_at_pod_scope()
            else:
                for container in self.pod.containers:
                    self.container = container.name
                    self.hand_out(container, self.merged_for(container))
        except ManagerRefused as refusal:
            return Admission(
                admitted=False,
                reason=refusal.reason,
                message=refusal.message,
                stage=self.stage,
                container=self.container,
                nearest_miss=refusal.nearest_miss,
            )
        return Admission(admitted=True, containers=tuple(self.placement_of(each.name) for each in self.pod.containers))

    def admit_at_pod_scope(self) -> None:
        hint = self.merged_for_pod()
        if not self.divides_a_lot:
            self.hand_out_container_by_container(hint)
            return
        for container in self.pod.containers:
            self.hints[container.name] = hint
        self.stage = "cpu"
        allocate_pod_cpus(self.node, self.cpus, self.pod, hint.mask)
        self.stage = "memory"
        allocate_pod_memory(self.node, self.memory, self.pod, hint)

    def hand_out_container_by_container(self, hint: Hint) -> None:
        for container in self.pod.containers:
            self.container = container.name
            self.hand_out(container, hint)

    def hand_out(self, container: ContainerRequest, hint: Hint) -> None:
        self.hints[container.name] = hint
        self.stage = "device"
        allocate_devices(self.node, self.devices, container, hint.mask)
        self.stage = "cpu"
        count = exclusive_cpus(self.node, self.pod, container)
        allocate_cpus(self.node, self.cpus, container, count, hint.mask)
        self.stage = "memory"
        if manages(self.node, self.pod):
            allocate_memory(self.node, self.memory, self.pod, container, hint)

    def merged_for(self, container: ContainerRequest) -> Hint:
        need = Need(
            devices=device_requests(self.node, container),
            cpus=exclusive_cpus(self.node, self.pod, container),
            memory=memory_requests(self.node, self.pod, container) if manages(self.node, self.pod) else {},
        )
        in_one_zone = one_zone_for_all(self.node, self.ledgers, need)
        return in_one_zone or self.judged(need, self.hints_of(need))

    def merged_for_pod(self) -> Hint:
        node, pod = self.node, self.pod
        if self.divides_a_lot:
            need = Need(device_requests_of_pod(node, pod), pod_cpus(node, pod), pod_memory(node, pod))
            devices, cpu, memory = self.hints_of(need, with_reuse=False)
            # A lot that cannot be divided is announced as impossible; best-effort then fails while handing out.
            if need.cpus and cpu_lot_problem(node, pod) is not None:
                cpu = {CPU: []}
            if need.memory and memory_lot_problem(node, pod) is not None:
                memory = {name: [] for name in need.memory}
            return self.judged(need, [devices, cpu, memory])
        need = Need(
            devices=device_requests_of_pod(node, pod),
            cpus=exclusive_cpus_of_pod(node, pod),
            memory=memory_requests_of_pod(node, pod) if manages(node, pod) else {},
        )
        in_one_zone = one_zone_for_all(self.node, self.ledgers, need, with_reuse=False)
        return in_one_zone or self.judged(need, self.hints_of(need, with_reuse=False))

    def hints_of(self, need: Need, *, with_reuse: bool = True) -> list[ProviderHints]:
        node = self.node
        fitting = memory_hints(node, self.memory, need.memory) if need.memory else []
        return [
            device_hints(node, self.devices, need.devices, with_reuse=with_reuse),
            {CPU: cpu_hints(node, self.cpus, need.cpus)} if need.cpus else None,
            # No fitting zones means no preference here, so the pod passes the merge and fails while handing out.
            dict.fromkeys(need.memory, fitting) if fitting else None,
        ]

    def judged(self, need: Need, providers: list[ProviderHints]) -> Hint:
        self.stage = "topology"
        zone_ids, settings = self.node.zone_ids, self.node.settings
        hint = merge(zone_ids, settings.policy, providers, self.node.distances if settings.prefer_closest else ())
        if hint.preferred:
            return hint
        if settings.policy is not Policy.SINGLE_NUMA_NODE and not subsets(zone_ids).complete:
            raise undecided(len(zone_ids), nearest_miss(self.node, self.ledgers, need))
        if not admits(settings.policy, hint):
            raise ManagerRefused(
                TOPOLOGY_AFFINITY_ERROR, self.locality_message(), nearest_miss(self.node, self.ledgers, need)
            )
        return hint

    @property
    def ledgers(self) -> tuple[DeviceLedger, CpuLedger, MemoryLedger]:
        return self.devices, self.cpus, self.memory

    def locality_message(self) -> str:
        if not self.divides_a_lot:
            return "Resources cannot be allocated with Topology locality"
        where = "with a container-level" if self.container else "under pod-scope"
        return f"Pod Scope pod with pod-level resources failed admission {where} topology manager"

    def placement_of(self, name: str) -> ContainerPlacement:
        hint = self.hints[name]
        return ContainerPlacement(
            name=name,
            zones=None if hint.mask is None else zones_in(hint.mask),
            preferred=hint.preferred,
            cpus=zones_in(self.cpus.owned.get(name, 0)),
            memory=tuple(sorted(self.memory.owned.get(name, ()), key=lambda block: block.type)),
            devices=self.devices.owned.get(name, {}),
        )
