"""Pod and Node as the API server writes them, reduced to the fields bayplan reads.

Wire structs only: decoding skips every field that is not declared here, and nothing is ever written back from them.
Amounts stay text until `cluster/pods/request.py` turns them into integers, so that a message can name the field.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

Quantities = dict[str, str | int | float]
# As wide as the API's fields: an API server refuses what is beyond, and columns of 64 bits hold the rest.
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class WireStruct(Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """Base of all wire structs: immutable, camelCase on the wire, unknown fields skipped.

    What was decoded holds no cycles, so the garbage collector need not walk through hundreds of thousands of objects.
    """


class OwnerReference(WireStruct, frozen=True):
    """Who made an object; at most one owner is its controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(WireStruct, frozen=True):
    """The part of ObjectMeta that scheduling looks at."""

    name: str = ""
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class GroupObject(WireStruct, frozen=True):
    """Base of the objects that describe gangs.

    `unread` has a sentence for each of their fields that has no effect (`kube/unread_fields.py`).
    """

    unread: tuple[str, ...] | None = field(default=None, name="x-unread-fields")


class VersionedGroupObject(GroupObject, frozen=True):
    """A group object whose words depend on its API version.

    Typed lists leave `apiVersion` out, so decoding fills it in.
    """

    api_version: str = ""


class ResourceRequirements(WireStruct, frozen=True):
    """Requests and limits, of a container or of a whole pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(WireStruct, frozen=True):
    """A port; only one with `hostPort` occupies anything on the node."""

    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(WireStruct, frozen=True):
    """What happens when a container ends with certain exit codes."""

    action: str = ""


class SleepAction(WireStruct, frozen=True):
    """A hook that does nothing for some seconds."""

    seconds: Int64 = 0


class LifecycleHandler(WireStruct, frozen=True):
    """What a hook does; only a pause is read."""

    sleep: SleepAction | None = None


class Lifecycle(WireStruct, frozen=True):
    """What happens before a container is stopped."""

    pre_stop: LifecycleHandler | None = None


class Container(WireStruct, frozen=True):
    """A container or init container; `restartPolicy: Always` makes an init container a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    lifecycle: Lifecycle | None = None


class Toleration(WireStruct, frozen=True):
    """Lets a pod onto nodes with a matching taint. An empty key with operator Exists matches every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SelectorRequirement(WireStruct, frozen=True):
    """`key operator values`: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(WireStruct, frozen=True):
    """All expressions and fields must match; a term with neither matches nothing."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(WireStruct, frozen=True):
    """Any one term suffices."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(WireStruct, frozen=True):
    """A wish with a weight of 1 to 100."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(WireStruct, frozen=True):
    """Required and preferred node properties."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class LabelSelector(WireStruct, frozen=True):
    """All labels and expressions must match; one with neither matches everything, one that is absent nothing."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class PodAffinityTerm(WireStruct, frozen=True):
    """Pods by labels and namespace, and the node label whose value says what is near them."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(WireStruct, frozen=True):
    """A wish with a weight of 1 to 100."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(WireStruct, frozen=True):
    """Required and preferred neighbours; as `podAntiAffinity`, pods to keep away from."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(WireStruct, frozen=True):
    """Where a pod wants to be, by properties of nodes and by the pods that are there."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(WireStruct, frozen=True):
    """How evenly pods like this one are spread over the values of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class SchedulingGate(WireStruct, frozen=True):
    """A pod with any gate left is not ready to be scheduled."""

    name: str


class ClaimVolumeSource(WireStruct, frozen=True):
    """A claim in the namespace of the pod."""

    claim_name: str = ""


class ImageVolumeSource(WireStruct, frozen=True):
    """A volume with the contents of an image."""

    reference: str = ""


class Volume(WireStruct, frozen=True):
    """A volume.

    Only those of which kube-scheduler asks on which node they may be: behind a claim, a disk that nodes attach, or an
    image.

    A `csi` volume without a claim is none of them, nor are those that every node can have: emptyDir, configMap,
    hostPath, nfs and the like.
    """

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: dict[str, object] | None = None
    gce_persistent_disk: dict[str, object] | None = None
    aws_elastic_block_store: dict[str, object] | None = None
    azure_disk: dict[str, object] | None = None
    cinder: dict[str, object] | None = None
    vsphere_volume: dict[str, object] | None = None
    portworx_volume: dict[str, object] | None = None
    iscsi: dict[str, object] | None = None
    rbd: dict[str, object] | None = None
    image: ImageVolumeSource | None = None


class PodOS(WireStruct, frozen=True):
    """The operating system a pod was made for."""

    name: str = ""


class SchedulingGroup(WireStruct, frozen=True):
    """The PodGroup (`scheduling.k8s.io`) that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(WireStruct, frozen=True):
    """What a pod wants; wide because Kubernetes' PodSpec is."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduler_name: str | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    resource_claims: list[dict[str, object]] | None = None
    volumes: list[Volume] | None = None
    os: PodOS | None = None
    host_network: bool = False
    host_users: bool | None = None
    scheduling_group: SchedulingGroup | None = None
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None


class PodCondition(WireStruct, frozen=True):
    """One statement about a pod, such as PodScheduled=False because Unschedulable."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(WireStruct, frozen=True):
    """What a container that runs has: `resources` are in effect, `allocatedResources` are promised by the kubelet."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None


class PodStatus(WireStruct, frozen=True):
    """How far a pod has come."""

    phase: str | None = None
    qos_class: str | None = None
    reason: str | None = None
    conditions: list[PodCondition] | None = None
    nominated_node_name: str | None = None
    start_time: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities | None = None


class Pod(WireStruct, frozen=True):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None


class Taint(WireStruct, frozen=True):
    """Keeps pods off a node unless they tolerate it."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(WireStruct, frozen=True):
    """What the operator set on a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeSystemInfo(WireStruct, frozen=True):
    """What the kubelet says about itself."""

    kubelet_version: str = ""


class ContainerImage(WireStruct, frozen=True):
    """An image on a node, under all its names."""

    names: list[str] | None = None
    size_bytes: Int64 = 0


class NodeCondition(WireStruct, frozen=True):
    """One statement about a node, such as Ready=Unknown."""

    type: str = ""
    status: str = ""


class NodeStatus(WireStruct, frozen=True):
    """What the kubelet says the node has."""

    allocatable: Quantities | None = None
    conditions: list[NodeCondition] | None = None
    node_info: NodeSystemInfo | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None


class Node(WireStruct, frozen=True):
    """A node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class SelectingSpec(WireStruct, frozen=True):
    """The labels of the pods behind a Service or ReplicationController; absent if it has none."""

    selector: dict[str, str] | None = None


class Service(WireStruct, frozen=True):
    """A Service."""

    metadata: Metadata = Metadata()
    spec: SelectingSpec = SelectingSpec()


class ReplicationController(WireStruct, frozen=True):
    """A ReplicationController."""

    metadata: Metadata = Metadata()
    spec: SelectingSpec = SelectingSpec()


class Namespace(WireStruct, frozen=True):
    """A namespace; affinity terms may select namespaces by label."""

    metadata: Metadata = Metadata()


class ScopeRequirement(WireStruct, frozen=True):
    """Which pods a quota covers: `PriorityClass In [high]`."""

    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(WireStruct, frozen=True):
    """Requirements that must all hold."""

    match_expressions: list[ScopeRequirement] | None = None


class ResourceQuotaSpec(WireStruct, frozen=True):
    """What the pods of the namespace may request together, and which pods count."""

    hard: Quantities | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(WireStruct, frozen=True):
    """What the API server judges by."""

    hard: Quantities | None = None
    used: Quantities | None = None


class ResourceQuota(WireStruct, frozen=True):
    """A ResourceQuota."""

    metadata: Metadata = Metadata()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(WireStruct, frozen=True):
    """Limits of each object of one type: Container, Pod, PersistentVolumeClaim."""

    type: str = ""
    max: Quantities | None = None
    min: Quantities | None = None
    default: Quantities | None = None
    default_request: Quantities | None = None
    max_limit_request_ratio: Quantities | None = None


class LimitRangeSpec(WireStruct, frozen=True):
    """The limits."""

    limits: list[LimitRangeItem] | None = None


class LimitRange(WireStruct, frozen=True):
    """A LimitRange."""

    metadata: Metadata = Metadata()
    spec: LimitRangeSpec = LimitRangeSpec()
