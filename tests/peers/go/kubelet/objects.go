package main

import (
	"encoding/json"
	"sort"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

const kibibyte = 1024

// The sizes of huge pages in KiB, by the name that a machine has for them.
var pageSizes = map[string]uint64{"64Ki": 64, "2Mi": 2048, "32Mi": 32768, "1Gi": 1048576}

// info is the machine as cAdvisor would describe it.
func (m machine) info() *machineInfo {
	found := &machineInfo{NumSockets: m.Sockets}
	for _, zone := range m.NUMA {
		node := numaNode{Id: zone.ID, Memory: zone.Memory, Distances: zone.Dist}
		for _, name := range sortedKeys(zone.Pages) {
			pages := pagesInfo{PageSize: pageSizes[name], NumPages: uint64(zone.Pages[name])}
			node.HugePages = append(node.HugePages, pages)
		}
		node.Cores = m.CPU.coresOf(zone.ID)
		found.Topology = append(found.Topology, node)
		found.MemoryCapacity += zone.Memory
		found.NumPhysicalCores += len(node.Cores)
		for _, core := range node.Cores {
			found.NumCores += len(core.Threads)
		}
	}
	return found
}

func (c cpus) coresOf(zone int) []core {
	var cores []core
	place := map[int]int{}
	for cpu, number := range c.Core {
		if number < 0 || c.NUMA[cpu] != zone {
			continue
		}
		index, known := place[number]
		if !known {
			index = len(cores)
			place[number] = index
			found := core{Id: number, SocketID: c.Socket[cpu]}
			if c.L3 != nil {
				found.UncoreCaches = []cache{{Id: c.L3[cpu]}}
			}
			cores = append(cores, found)
		}
		cores[index].Threads = append(cores[index].Threads, cpu)
	}
	return cores
}

func (m machine) pages() map[string]int64 {
	total := map[string]int64{}
	for _, zone := range m.NUMA {
		for size, number := range zone.Pages {
			total["hugepages-"+size] += number * int64(pageSizes[size]) * kibibyte
		}
	}
	return total
}

func (k kubelet) reservedMemory() []kubeletconfig.MemoryReservation {
	var reserved []kubeletconfig.MemoryReservation
	for _, zone := range sortedKeys(k.ReservedMemory) {
		number, _ := strconv.Atoi(zone)
		limits := list(k.ReservedMemory[zone])
		reserved = append(reserved, kubeletconfig.MemoryReservation{NumaNode: int32(number), Limits: limits})
	}
	return reserved
}

// reservation is what kube-reserved, system-reserved and eviction take of the node.
func (k kubelet) reservation(reservedCPUs int) v1.ResourceList {
	milli := k.ReservedCPUMilli
	if k.ReservedCPUs != "" {
		milli = int64(reservedCPUs) * 1000
	}
	total := amounts{}
	for _, each := range k.ReservedMemory {
		for name, amount := range each {
			total[name] += amount
		}
	}
	found := list(total)
	found[v1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	return found
}

func (p podSpec) object() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: "default", UID: types.UID(p.Name)}}
	for _, each := range p.Init {
		container := each.object()
		if each.Sidecar {
			always := v1.ContainerRestartPolicyAlways
			container.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	for _, each := range p.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, each.object())
	}
	if p.PodReq != nil {
		asked := list(p.PodReq)
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: asked, Limits: asked.DeepCopy()}
	}
	return pod
}

func (c containerSpec) object() v1.Container {
	resources := v1.ResourceRequirements{Requests: list(c.Request)}
	if string(c.Limit) == "null" || len(c.Limit) == 0 {
		resources.Limits = list(c.Request)
	} else {
		var limits amounts
		if err := json.Unmarshal(c.Limit, &limits); err != nil {
			panic(err)
		}
		resources.Limits = list(limits)
	}
	return v1.Container{Name: c.Name, Resources: resources}
}

// list has CPUs in thousandths and everything else whole.
func list(written amounts) v1.ResourceList {
	found := v1.ResourceList{}
	for name, amount := range written {
		if name == "cpu" {
			found[v1.ResourceCPU] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		} else {
			found[v1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return found
}

func sortedKeys[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
