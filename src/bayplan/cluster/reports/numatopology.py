"""A Numatopology object read into the same report that a NodeResourceTopology becomes.

The input is Volcano's wire object, the output a `TopologyReport`: CPUs per zone, the kubelet's policies, every CPU by
its number, and what each listed pod holds. The object has nothing about memory, devices, distances or the Topology
Manager's scope; the scope is assumed to be `container`, the kubelet's default. Invalid content is left out and becomes
a problem: no id is ever guessed.

The object's `allocatable` are the unowned CPUs, including those that the kubelet reserves for the system. Volcano's
agent says how many are reserved, but not which. Without explicit ids, a kubelet takes the lowest cores of the machine,
and so does `lowest_cores`; bayplan's agent names them in the annotation `bayplan.io/reserved-cpus`. If a pod holds one
of the lowest, the kubelet was given other ids (`reservedSystemCPUs`): these may be anywhere, so that many CPUs are
subtracted from every zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bayplan.cluster.limits import MOST_PODS
from bayplan.cluster.pods.request import CPU, AmountError, amount_of
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.inventory import (
    LARGEST_ZONE,
    MOST_CPUS,
    OFFLINE,
    RESERVED_CPUS,
    CpuLayout,
    CpuSet,
    Inventory,
    NotUnderstood,
    PodHoldings,
    cpu_list,
    cpu_set,
)
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT, Assumptions, KubeletSettings
from bayplan.cluster.reports.reported_settings import folded, policy_and_scope
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.reports.zone_reports import ZoneAmounts, ZoneReport
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import (
    CPU_MANAGER_POLICY,
    TIMESTAMP_ANNOTATION,
    TOPOLOGY_MANAGER_POLICY,
    CpuInfo,
    Numatopology,
    PodAllocation,
)

_MILLI = 1000
_LARGEST_NUMBER = 65_535
# The kubelet's default for both policies is none; the agent writes an empty text for a default.
_CPU_STATIC = {"": False, "none": False, "static": True}


def read_numatopology(
    topology: Numatopology,
    names_by_uid: Mapping[str, str] | None = None,
    assumptions: Assumptions = Assumptions(),  # noqa: B008 - immutable
) -> TopologyReport:
    """Read one object. `names_by_uid` has `namespace/name` of pods, for objects that list them by uid alone."""
    at = ObjectPath.of(topology)
    reading = _Reading(at.child("spec"), [], assumptions)
    spec = topology.spec
    settings = reading.settings(spec.policies or {})
    layout, kernel_cores = reading.layout(spec.cpu_detail or {})
    annotations = topology.metadata.annotations or {}
    made_at = reading.moment(annotations.get(TIMESTAMP_ANNOTATION), at)
    if layout is None:
        return TopologyReport(
            topology.metadata.name, settings, (), reading.remarks, made_at=made_at, upstream_settings=settings
        )
    about_cpus = (spec.numares or {}).get(CPU)
    listed = reading.spec.child("numares").child(CPU).child("allocatable")
    not_owned = reading.cpus(about_cpus.allocatable, listed, layout) if about_cpus else 0
    described = len(spec.cpu_detail or {})
    if about_cpus and about_cpus.capacity not in (0, described):
        text = f"{about_cpus.capacity} is ignored: cpuDetail has {described} CPUs"
        reading.remarks.append(ObjectRemark(reading.spec.child("numares").child(CPU).child("capacity"), text))
    pods, owned = reading.pods(spec.pod_allocations, layout, names_by_uid or {})
    named = annotations.get(RESERVED_CPUS)
    where = at.child("metadata").child("annotations").key(RESERVED_CPUS)
    reserved = 0 if named is None else reading.cpus(named, where, layout)
    if pods is None and not_owned | reserved == _all_of(layout):
        pods = {}  # the writer omits an empty list; here it must be one, because no pod owns a CPU
    somewhere = 0
    if not reserved:
        reserved, somewhere = reading.reserved(spec.res_reserved or {}, layout, owned, static=bool(settings.cpu_static))
    free = not_owned & ~reserved
    return TopologyReport(
        topology.metadata.name,
        settings,
        _zones(layout, free, reserved, somewhere),
        reading.remarks,
        inventory=None if somewhere else Inventory(layout, free, reserved, {}, kernel_cores),
        pods=pods,
        made_at=made_at,
        upstream_settings=settings,
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """Where in the object we are, and what was wrong so far."""

    spec: ObjectPath
    remarks: list[ObjectRemark]
    assumptions: Assumptions

    def settings(self, policies: Mapping[str, str]) -> KubeletSettings:
        settings, at = KubeletSettings(), self.spec.child("policies")
        policy, cpu_manager = policies.get(TOPOLOGY_MANAGER_POLICY, ""), policies.get(CPU_MANAGER_POLICY, "")
        named = policy_and_scope(policy)
        if named is not None:
            settings = replace(settings, policy=named[0], scope=named[1] or settings.scope)
        else:
            settings = replace(settings, policy=self.assumptions.policy_if(odd=bool(policy)))
        if policy and named is None:
            judged = f"the node is judged as {settings.policy.text} (assume.topologyManagerPolicy)"
            text = f'"{policy}" is not known: {judged}; expected {", ".join(POLICY_BY_TEXT)}'
            self.remarks.append(ObjectRemark(at.key(TOPOLOGY_MANAGER_POLICY), text))
        if folded(cpu_manager) in _CPU_STATIC:
            return replace(settings, cpu_static=_CPU_STATIC[folded(cpu_manager)])
        self.remarks.append(
            ObjectRemark(at.key(CPU_MANAGER_POLICY), f'"{cpu_manager}" is ignored: expected none, static')
        )
        return settings

    def layout(self, detail: Mapping[str, CpuInfo]) -> tuple[CpuLayout | None, tuple[int, ...]]:
        """The CPUs with cores numbered through the whole machine, and the kernel's own core numbers."""
        at = self.spec.child("cpuDetail")
        known: dict[int, CpuInfo] = {}
        for text, info in detail.items():
            # No int() of signs, blanks or digits of other scripts: only a plain number is a CPU.
            if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < MOST_CPUS):
                self.remarks.append(
                    ObjectRemark(at.entry(text), f"is no CPU number from 0 to {MOST_CPUS - 1}: CPU ignored")
                )
            elif not (
                0 <= info.numa <= LARGEST_ZONE
                and 0 <= info.socket <= _LARGEST_NUMBER
                and 0 <= info.core <= _LARGEST_NUMBER
            ):
                where = f"numa {info.numa}, socket {info.socket}, core {info.core}"
                self.remarks.append(
                    ObjectRemark(
                        at.entry(text), f"{where} makes no sense; NUMA ids are 0 to {LARGEST_ZONE}: CPU ignored"
                    )
                )
            else:
                known[int(text)] = info
        if not known:
            self.remarks.append(ObjectRemark(at, "holds no CPU: nothing can be aligned"))
            return None, ()
        first_of_core: dict[tuple[int, int], int] = {}
        for cpu in sorted(known):
            first_of_core.setdefault((known[cpu].socket, known[cpu].core), cpu)
        everyone = [known.get(cpu) for cpu in range(max(known) + 1)]
        numa = tuple(OFFLINE if info is None else info.numa for info in everyone)
        layout = CpuLayout(
            core=tuple(OFFLINE if info is None else first_of_core[info.socket, info.core] for info in everyone),
            socket=tuple(OFFLINE if info is None else info.socket for info in everyone),
            numa=numa,
            l3=numa,
        )
        return layout, tuple(OFFLINE if info is None else info.core for info in everyone)

    def cpus(self, text: str, at: ObjectPath, layout: CpuLayout) -> CpuSet:
        """A list of CPUs; none if it cannot be read, and none that the object does not describe."""
        try:
            listed = cpu_set(text)
        except NotUnderstood as error:
            self.remarks.append(ObjectRemark(at, f'"{text}" is ignored: expected {error}'))
            return 0
        strangers = listed & ~_all_of(layout)
        if strangers:
            ids = cpu_list(_members(strangers))
            self.remarks.append(ObjectRemark(at, f"CPUs {ids} are not in cpuDetail: ignored"))
        return listed & ~strangers

    def reserved_milli(self, reserved: Mapping[str, str | int | float]) -> int:
        if CPU not in reserved:
            return 0
        try:
            return amount_of(CPU, reserved[CPU])
        except AmountError as error:
            self.remarks.append(ObjectRemark(self.spec.child("resReserved").child(CPU), f"{error}: taken as none"))
            return 0

    def reserved(
        self, amounts: Mapping[str, str | int | float], layout: CpuLayout, owned: CpuSet, *, static: bool
    ) -> tuple[CpuSet, int]:
        """The CPUs kept for the system, from their number: the lowest, or so many that may be anywhere if a pod holds
        one of those.
        """
        at, count = self.spec.child("resReserved"), -(-self.reserved_milli(amounts) // _MILLI)
        if not count:
            if static:
                text = (
                    "no CPU is reserved, but a kubelet with static CPU Manager always reserves some: "
                    "it may refuse what looks free"
                )
                self.remarks.append(ObjectRemark(at, text))
            return 0, 0
        if count > layout.count:
            self.remarks.append(
                ObjectRemark(at.child(CPU), f"{count} CPUs are more than the {layout.count} in cpuDetail: none is left")
            )
        lowest = lowest_cores(layout, count)
        if not lowest & owned:
            return lowest, 0
        held, kept = cpu_list(_members(lowest & owned)), cpu_list(_members(lowest))
        text = (
            f"of the {count} lowest CPUs ({kept}) pods hold {held}, so the kubelet reserves others, and the "
            "object cannot say which:"
            f" every zone is counted without {count}"
        )
        self.remarks.append(ObjectRemark(at.child(CPU), text))
        return 0, count

    def pods(
        self, allocations: list[PodAllocation] | None, layout: CpuLayout, names_by_uid: Mapping[str, str]
    ) -> tuple[PodHoldings | None, CpuSet]:
        """What each listed pod holds, None if the object lists no pods, and the CPUs of them all.

        Pods of an unknown uid have no name.
        """
        if allocations is None:
            return None, 0
        holdings: dict[str, dict[str, dict[int, int]]] = {}
        of_all = 0
        if len(allocations) > MOST_PODS:
            text = f"{len(allocations) - MOST_PODS} pods left out: at most {MOST_PODS} are read"
            self.remarks.append(ObjectRemark(self.spec.child("podAllocations"), text))
        for index, pod in enumerate(allocations[:MOST_PODS]):
            at = self.spec.child("podAllocations").item(index).child("containerAllocations")
            owned = 0
            for position, container in enumerate(pod.container_allocations or ()):
                where = at.item(position).child("allocations").child(CPU)
                owned |= self.cpus((container.allocations or {}).get(CPU, ""), where, layout)
            of_all |= owned
            name = f"{pod.namespace or 'default'}/{pod.name}" if pod.name else names_by_uid.get(pod.uid)
            if name is not None:
                in_zones = _milli_by_zone(layout, owned)
                holdings[name] = {CPU: {zone: amount for zone, amount in in_zones.items() if amount}}
        return holdings, of_all

    def moment(self, text: str | None, at: ObjectPath) -> float | None:
        if text is None:
            return None
        if text.isascii() and text.isdecimal() and len(text) <= 12:
            return float(text)
        where = at.child("metadata").child("annotations").key(TIMESTAMP_ANNOTATION)
        self.remarks.append(ObjectRemark(where, f'"{text}" is ignored: expected seconds since 1970'))
        return None


def _zones(layout: CpuLayout, free: CpuSet, reserved: CpuSet, somewhere: int) -> tuple[ZoneReport, ...]:
    """The amounts by zone. `somewhere` counts reserved CPUs whose location is unknown: no zone may promise them."""
    left, kept, unknown = _milli_by_zone(layout, free), _milli_by_zone(layout, reserved), somewhere * _MILLI
    zones = []
    for zone, cpus in sorted(layout.cpus_in_zone.items()):
        total = cpus * _MILLI
        amounts = ZoneAmounts(total, max(total - kept[zone] - unknown, 0), max(left[zone] - unknown, 0))
        zones.append(ZoneReport(zone, {CPU: amounts}, {}))
    return tuple(zones)


def _milli_by_zone(layout: CpuLayout, cpus: CpuSet) -> dict[int, int]:
    return {zone: (here & cpus).bit_count() * _MILLI for zone, here in layout.by_zone.items()}


def lowest_cores(layout: CpuLayout, count: int) -> CpuSet:
    """The CPUs that a kubelet keeps for the system if it is only told how many: core after core from the lowest zone
    on.
    """
    in_order = sorted(
        _members(_all_of(layout)), key=lambda cpu: (layout.socket[cpu], layout.numa[cpu], layout.core[cpu], cpu)
    )
    return sum(1 << cpu for cpu in in_order[:count])


def _all_of(layout: CpuLayout) -> CpuSet:
    return sum(layout.by_zone.values())


def _members(cpus: CpuSet) -> list[int]:
    return [cpu for cpu in range(cpus.bit_length()) if cpus >> cpu & 1]
