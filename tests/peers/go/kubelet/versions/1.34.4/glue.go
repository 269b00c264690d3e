package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// The managers as this version calls them.

const never = 1000 * time.Hour

func newTopologyManager(info *machineInfo, k kubelet) (topologymanager.Manager, error) {
	return topologymanager.NewManager(info.Topology, k.TopologyPolicy, k.TopologyScope, k.TopologyOptions)
}

func newDeviceManager(folder string, info *machineInfo, store topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return devicemanager.NewWithoutSocket(folder, info.Topology, store)
}

func newCPUManager(k kubelet, info *machineInfo, specific cpuset.CPUSet, reservation v1.ResourceList, folder string, store topologymanager.Store) (cpumanager.Manager, error) {
	return cpumanager.NewManager(k.CPUPolicy, k.CPUOptions, never, info, specific, reservation, folder, store)
}

func newMemoryManager(k kubelet, info *machineInfo, reservation v1.ResourceList, folder string, store topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(context.Background(), k.MemoryPolicy, info, reservation, k.reservedMemory(), folder, store)
}

func start(n *node, containers containermap.ContainerMap, running sets.Set[string]) error {
	ctx := context.Background()
	if err := n.cpu.Start(n.pods, always{}, always{}, nil, containers.Clone()); err != nil {
		return err
	}
	if err := n.memory.Start(ctx, n.pods, always{}, always{}, nil, containers.Clone()); err != nil {
		return err
	}
	return n.devices.StartWithoutSocket(n.pods, always{}, containers, running)
}

func connect(devices *devicemanager.ManagerImpl, resource string, all []device) error {
	if err := devices.PluginConnected(resource, plugin{resource: resource}); err != nil {
		return err
	}
	devices.PluginListAndWatchReceiver(resource, listed(all))
	return nil
}

func deviceCapacity(devices *devicemanager.ManagerImpl) v1.ResourceList {
	_, allocatable, _ := devices.GetCapacity()
	return allocatable
}

func healthy(devices *devicemanager.ManagerImpl) devicemanager.ResourceDeviceInstances {
	return devices.GetAllocatableDevices()
}

// watched notes how far an admission has come.
type watched struct {
	topologymanager.HintProvider
	name string
	seen *progress
}

func (w watched) GetTopologyHints(pod *v1.Pod, container *v1.Container) map[string][]topologymanager.TopologyHint {
	w.seen.asks(container.Name)
	return w.HintProvider.GetTopologyHints(pod, container)
}

func (w watched) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	w.seen.asks("")
	return w.HintProvider.GetPodTopologyHints(pod)
}

func (w watched) Allocate(pod *v1.Pod, container *v1.Container) error {
	w.seen.allocates(container.Name, w.name)
	return w.HintProvider.Allocate(pod, container)
}

func addProvider(topology topologymanager.Manager, provider watched) {
	topology.AddHintProvider(provider)
}

func admit(handler lifecycle.PodAdmitHandler, attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return handler.Admit(attributes)
}

func newPredicate(object *v1.Node, devices *devicemanager.ManagerImpl) lifecycle.PodAdmitHandler {
	get := func() (*v1.Node, error) { return object, nil }
	return lifecycle.NewPredicateAdmitHandler(get, inOrder{}, devices.UpdatePluginResources)
}

// inOrder names the same cause each time, where the order of a map would decide; nothing is preempted.
type inOrder struct{}

func (inOrder) HandleAdmissionFailure(_ context.Context, _ *v1.Pod, reasons []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	return ordered(reasons), nil
}

func affinity(topology topologymanager.Manager, pod, container string) topologymanager.TopologyHint {
	return topology.GetAffinity(pod, container)
}

func addContainer(n *node, pod *v1.Pod, container *v1.Container, id string) {
	n.cpu.AddContainer(pod, container, id)
	n.memory.AddContainer(context.Background(), pod, container, id)
	n.topology.AddContainer(pod, container, id)
}

func removeContainer(n *node, id string) {
	_ = n.topology.RemoveContainer(id)
}

// collectStale lets every manager forget pods that are gone, as each does before it gives hints.
func collectStale(n *node) {
	n.cpu.GetTopologyHints(&v1.Pod{}, &v1.Container{})
	n.memory.GetTopologyHints(&v1.Pod{}, &v1.Container{})
	n.devices.UpdateAllocatedDevices()
}

func newPolicy(name string, zones []numaNode, options map[string]string) (topologymanager.Policy, error) {
	parsed, err := topologymanager.NewPolicyOptions(options)
	if err != nil {
		return nil, err
	}
	info, err := topologymanager.NewNUMAInfo(zones, parsed)
	if err != nil {
		return nil, err
	}
	switch name {
	case topologymanager.PolicyBestEffort:
		return topologymanager.NewBestEffortPolicy(info, parsed), nil
	case topologymanager.PolicyRestricted:
		return topologymanager.NewRestrictedPolicy(info, parsed), nil
	case topologymanager.PolicySingleNumaNode:
		return topologymanager.NewSingleNumaNodePolicy(info, parsed), nil
	}
	return topologymanager.NewNonePolicy(), nil
}

func merge(policy topologymanager.Policy, providers []map[string][]topologymanager.TopologyHint) (topologymanager.TopologyHint, bool) {
	return policy.Merge(providers)
}
