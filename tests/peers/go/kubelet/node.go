package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

const mostPods = 110

func init() { klog.SetLogger(logr.Discard()) }

// node is a kubelet's resource managers, and the pods that it runs.
type node struct {
	asked    *kase
	folder   string
	info     *machineInfo
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
	devices  *devicemanager.ManagerImpl
	fits     lifecycle.PodAdmitHandler
	seen     *progress

	lock   sync.Mutex // the CPU Manager looks at the pods from a goroutine of its own
	active []*v1.Pod
}

// progress is how far an admission has come: what was asked or handed out last, and by whom.
type progress struct {
	container string
	stage     string
}

func (p *progress) asks(container string)                { p.container, p.stage = container, "topology" }
func (p *progress) allocates(container, provider string) { p.container, p.stage = container, provider }

// always is a kubelet that has heard from all its sources, and whose containers have no status.
type always struct{}

func (always) AddSource(string)                            {}
func (always) AllReady() bool                              { return true }
func (always) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }
func liveThrough(line []byte) (any, error) {
	asked := &kase{}
	if err := json.Unmarshal(line, asked); err != nil {
		return nil, err
	}
	n, err := newNode(asked)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(n.folder)
	before := n.free()
	answer := map[string]any{"resolved": n.resolved(), "free0": before}
	var raw struct {
		Steps []map[string]any `json:"steps"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, err
	}
	for index, each := range asked.Steps {
		written := raw.Steps[index]
		if out := n.take(each); out != nil {
			written["out"] = out
		}
		if after := n.free(); !same(before, after) {
			written["free"] = after
			before = after
		}
	}
	answer["steps"] = raw.Steps
	return answer, nil
}

func newNode(asked *kase) (*node, error) {
	if err := setGates(asked.Kubelet.FeatureGates); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("/dev/shm", "bayplan-kubelet-")
	if err != nil {
		return nil, err
	}
	n := &node{asked: asked, folder: folder, info: asked.Machine.info()}
	if err := n.boot(); err != nil {
		os.RemoveAll(folder)
		return nil, fmt.Errorf("the kubelet does not start: %w", err)
	}
	return n, nil
}

func defaultGates([]byte) (any, error) {
	if err := setGates(nil); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for name := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		found[string(name)] = utilfeature.DefaultFeatureGate.Enabled(name)
	}
	return map[string]any{"gates": found}, nil
}

var changedGates map[string]bool

func setGates(wanted map[string]bool) error {
	gates := utilfeature.DefaultMutableFeatureGate
	for name := range changedGates {
		if err := gates.ResetFeatureValueToDefault(featuregate.Feature(name)); err != nil {
			return err
		}
	}
	changedGates = nil
	// Alpha options of the CPU Manager may be used everywhere.
	if err := gates.SetFromMap(map[string]bool{"CPUManagerPolicyAlphaOptions": true}); err != nil {
		return err
	}
	if err := gates.SetFromMap(wanted); err != nil {
		return err
	}
	changedGates = wanted
	return nil
}

// boot starts all managers, from their checkpoints if there are any.
func (n *node) boot() error {
	kubelet := n.asked.Kubelet
	specific, err := cpuset.Parse(kubelet.ReservedCPUs)
	if err != nil {
		return err
	}
	reservation := kubelet.reservation(specific.Size())
	n.seen = &progress{}
	if n.topology, err = newTopologyManager(n.info, kubelet); err != nil {
		return err
	}
	if n.devices, err = newDeviceManager(n.folder, n.info, n.topology); err != nil {
		return err
	}
	if n.cpu, err = newCPUManager(kubelet, n.info, specific, reservation, n.folder, n.topology); err != nil {
		return err
	}
	if n.memory, err = newMemoryManager(kubelet, n.info, reservation, n.folder, n.topology); err != nil {
		return err
	}
	addProvider(n.topology, watched{n.devices, "device", n.seen})
	addProvider(n.topology, watched{n.cpu, "cpu", n.seen})
	addProvider(n.topology, watched{n.memory, "memory", n.seen})
	containers, running := n.containers()
	if err := start(n, containers, running); err != nil {
		return err
	}
	for _, resource := range sortedKeys(n.asked.Machine.Devices) {
		if err := connect(n.devices, resource, n.asked.Machine.Devices[resource]); err != nil {
			return err
		}
	}
	object := &v1.Node{}
	object.Status.Allocatable = list(n.resolved().Allocatable)
	n.fits = newPredicate(object, n.devices)
	return nil
}

func (n *node) containers() (containermap.ContainerMap, sets.Set[string]) {
	found, running := containermap.NewContainerMap(), sets.New[string]()
	for _, pod := range n.active {
		for _, each := range pod.Spec.Containers {
			found.Add(string(pod.UID), each.Name, id(pod, each))
			running.Insert(id(pod, each))
		}
	}
	return found, running
}

func id(pod *v1.Pod, container v1.Container) string { return string(pod.UID) + "/" + container.Name }

func (n *node) pods() []*v1.Pod {
	n.lock.Lock()
	defer n.lock.Unlock()
	return slices.Clone(n.active)
}

func (n *node) add(pod *v1.Pod) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.active = append(n.active, pod)
}

func (n *node) drop(name string) *v1.Pod {
	n.lock.Lock()
	defer n.lock.Unlock()
	for index, pod := range n.active {
		if pod.Name == name {
			n.active = slices.Delete(n.active, index, index+1)
			return pod
		}
	}
	return nil
}

// take does one step; starting or removing a pod that does not run changes nothing.
func (n *node) take(each step) any {
	switch each.Op {
	case "admit":
		pod := each.Pod.object()
		out := n.admit(pod)
		if !out.Admit {
			n.drop(pod.Name)
		}
		return out
	case "start":
		for _, pod := range n.pods() {
			if pod.Name == each.Name {
				for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
					addContainer(n, pod, &container, id(pod, container))
				}
			}
		}
	case "remove":
		if pod := n.drop(each.Name); pod != nil {
			for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				removeContainer(n, id(pod, container))
			}
		}
	case "restart":
		return n.restart()
	default:
		panic("unknown step " + each.Op)
	}
	return nil
}

// restart is a kubelet that comes up again: from its checkpoints, and then it admits every pod once more, in the order of creation.
func (n *node) restart() any {
	pods := n.active
	if err := n.boot(); err != nil {
		return map[string]any{"error": err.Error()}
	}
	n.active = nil
	refused := []string{}
	for _, pod := range pods {
		if out := n.admit(pod); !out.Admit {
			refused = append(refused, pod.Name)
			n.drop(pod.Name)
		}
	}
	return map[string]any{"refused": refused}
}

func (n *node) admit(pod *v1.Pod) outcome {
	attributes := &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: n.pods()}
	n.add(pod)
	out := outcome{QOS: string(v1qos.GetPodQOS(pod)), Fit: admit(n.fits, attributes).Admit}
	result := admit(n.topology, attributes)
	stage, container := n.seen.stage, n.seen.container
	if result.Admit {
		stage, container = "predicate", ""
		result = admit(n.fits, attributes)
	}
	if !result.Admit {
		out.Reason, out.Message = result.Reason, result.Message
		out.Fail = &failed{Stage: stage, Container: container}
		if stage == "device" && n.severalDevices(pod, container) {
			out.Message = "" // the order of a map decides which is named
		}
		return out
	}
	out.Admit = true
	out.Given = map[string]given{}
	for _, each := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		out.Given[each.Name] = n.given(string(pod.UID), each.Name)
	}
	return out
}

func (n *node) severalDevices(pod *v1.Pod, container string) bool {
	number := 0
	for _, each := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if each.Name == container {
			for resource := range each.Resources.Limits {
				if _, known := n.asked.Machine.Devices[string(resource)]; known {
					number++
				}
			}
		}
	}
	return number > 1
}

func (n *node) given(pod, container string) given {
	hint := affinity(n.topology, pod, container)
	found := given{Preferred: hint.Preferred}
	if hint.NUMANodeAffinity != nil {
		found.Affinity = hint.NUMANodeAffinity.GetBits()
	}
	if set, exists := n.cpu.State().GetCPUSet(pod, container); exists {
		found.CPUs = set.String()
	}
	for _, each := range n.memory.State().GetMemoryBlocks(pod, container) {
		found.Memory = append(found.Memory, block{string(each.Type), each.Size, each.NUMAAffinity})
	}
	sort.Slice(found.Memory, func(one, other int) bool { return found.Memory[one].Type < found.Memory[other].Type })
	for resource, devices := range n.devices.GetDevices(pod, container) {
		if found.Devices == nil {
			found.Devices = map[string][]string{}
		}
		found.Devices[resource] = sortedKeys(devices)
	}
	return found
}

func (n *node) resolved() resolved {
	allocatable := amounts{"pods": mostPods, "cpu": int64(n.info.NumCores) * 1000, "memory": int64(n.info.MemoryCapacity)}
	specific, _ := cpuset.Parse(n.asked.Kubelet.ReservedCPUs)
	for name, quantity := range n.asked.Kubelet.reservation(specific.Size()) {
		if name == v1.ResourceCPU {
			allocatable["cpu"] -= quantity.MilliValue()
		} else {
			allocatable[string(name)] -= quantity.Value()
		}
	}
	for name, size := range n.asked.Machine.pages() {
		allocatable["memory"] -= size
		allocatable[name] += size
	}
	for name, quantity := range deviceCapacity(n.devices) {
		allocatable[string(name)] = quantity.Value()
	}
	found := resolved{Allocatable: allocatable}
	if n.asked.Kubelet.CPUPolicy == "static" {
		found.ReservedCPUs = n.reserved().String()
	}
	return found
}

func (n *node) reserved() cpuset.CPUSet {
	return n.cpu.GetAllCPUs().Difference(n.cpu.GetAllocatableCPUs())
}

// free is what a pod could get now, after the managers have forgotten pods that are gone.
func (n *node) free() free {
	collectStale(n)
	found := free{}
	if n.asked.Kubelet.CPUPolicy == "static" {
		found.CPU = n.cpu.State().GetDefaultCPUSet().Difference(n.reserved()).String()
	}
	if n.asked.Kubelet.MemoryPolicy == "Static" {
		found.Memory = map[string]zoneMemory{}
		for zone, state := range n.memory.State().GetMachineState() {
			left := map[string]uint64{}
			for name, each := range state.MemoryMap {
				left[string(name)] = each.Free
			}
			cells := slices.Clone(state.Cells)
			sort.Ints(cells)
			found.Memory[fmt.Sprint(zone)] = zoneMemory{Free: left, Cells: cells, N: state.NumberOfAssignments}
		}
	}
	taken := sets.New[string]()
	for _, pod := range n.pods() {
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			for resource, devices := range n.devices.GetDevices(string(pod.UID), container.Name) {
				for id := range devices {
					taken.Insert(resource + " " + id)
				}
			}
		}
	}
	for resource, devices := range healthy(n.devices) {
		if found.Devices == nil {
			found.Devices = map[string][]string{}
		}
		found.Devices[resource] = []string{}
		for _, id := range sortedKeys(devices) {
			if !taken.Has(resource + " " + id) {
				found.Devices[resource] = append(found.Devices[resource], id)
			}
		}
	}
	return found
}

func same(one, other free) bool {
	first, _ := json.Marshal(one)
	second, _ := json.Marshal(other)
	return string(first) == string(second)
}

// timeAdmission admits and removes the pod of the last step, so many times.
func timeAdmission(line []byte) (any, error) {
	asked := &kase{}
	if err := json.Unmarshal(line, asked); err != nil {
		return nil, err
	}
	n, err := newNode(asked)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(n.folder)
	last := len(asked.Steps) - 1
	for _, each := range asked.Steps[:last] {
		n.take(each)
	}
	pod := asked.Steps[last].Pod.object()
	attributes := &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: n.pods()}
	admitted := true
	took := make([]int64, 0, asked.Repeat)
	for range asked.Repeat {
		n.add(pod)
		took = append(took, timed(1, func() { admitted = admit(n.topology, attributes).Admit })...)
		n.drop(pod.Name)
		collectStale(n)
	}
	return map[string]any{"admit_ns": took, "admit": admitted}, nil
}
