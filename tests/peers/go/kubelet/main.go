// A kubelet's resource managers on a machine that exists only on paper: the real Topology, CPU, Memory and Device Managers with their
// checkpoints, and the real check of the node's amounts. Cases have the form of tests/conformance's kubelet recordings.
//
// "node" takes a machine, a kubelet's configuration and steps, and answers with what the kubelet made of them. "merge" merges hints.
// "time" measures one admission on a machine, `repeat` times. "gates" names the feature gates that are on by default.
package main

import "encoding/json"

var questions = map[string]question{"node": liveThrough, "merge": mergeHints, "time": timeAdmission, "gates": defaultGates}

type amounts map[string]int64

type kase struct {
	Machine machine `json:"machine"`
	Kubelet kubelet `json:"kubelet"`
	Steps   []step  `json:"steps"`
	Repeat  int     `json:"repeat"`
}

type machine struct {
	Sockets int                 `json:"sockets"`
	NUMA    []zone              `json:"numa"`
	CPU     cpus                `json:"cpu"`
	Devices map[string][]device `json:"devices"`
}

type zone struct {
	ID     int              `json:"id"`
	Memory uint64           `json:"mem"`
	Pages  map[string]int64 `json:"hp"`
	Dist   []uint64         `json:"dist"`
}

// cpus has a place for each CPU id; an id whose core is negative is offline.
type cpus struct {
	Core   []int `json:"core"`
	Socket []int `json:"socket"`
	NUMA   []int `json:"numa"`
	L3     []int `json:"l3"`
}

type device struct {
	ID        string  `json:"id"`
	NUMA      []int64 `json:"numa"`
	Unhealthy bool    `json:"unhealthy"`
}

type kubelet struct {
	TopologyPolicy   string             `json:"topology_policy"`
	TopologyScope    string             `json:"topology_scope"`
	TopologyOptions  map[string]string  `json:"topology_options"`
	CPUPolicy        string             `json:"cpu_policy"`
	CPUOptions       map[string]string  `json:"cpu_options"`
	MemoryPolicy     string             `json:"memory_policy"`
	ReservedCPUs     string             `json:"reserved_cpus"`
	ReservedCPUMilli int64              `json:"reserved_cpu_milli"`
	ReservedMemory   map[string]amounts `json:"reserved_memory"`
	FeatureGates     map[string]bool    `json:"feature_gates"`
}

type step struct {
	Op   string  `json:"op"`
	Name string  `json:"name,omitempty"`
	Pod  podSpec `json:"pod"`
}

type podSpec struct {
	Name       string          `json:"name"`
	Init       []containerSpec `json:"init"`
	Containers []containerSpec `json:"containers"`
	PodReq     amounts         `json:"pod_req"`
}

type containerSpec struct {
	Name    string          `json:"name"`
	Request amounts         `json:"req"`
	Limit   json.RawMessage `json:"lim"`
	Sidecar bool            `json:"sidecar"`
}

type outcome struct {
	Admit   bool             `json:"admit"`
	Fit     bool             `json:"fit"`
	Reason  string           `json:"reason,omitempty"`
	Message string           `json:"msg,omitempty"`
	Fail    *failed          `json:"fail,omitempty"`
	QOS     string           `json:"qos"`
	Given   map[string]given `json:"ctr,omitempty"`
}

type failed struct {
	Stage     string `json:"stage"`
	Container string `json:"container,omitempty"`
}

type given struct {
	Affinity  []int               `json:"aff"`
	Preferred bool                `json:"pref"`
	CPUs      string              `json:"cpus,omitempty"`
	Memory    []block             `json:"mem,omitempty"`
	Devices   map[string][]string `json:"dev,omitempty"`
}

type block struct {
	Type string `json:"type"`
	Size uint64 `json:"size"`
	NUMA []int  `json:"numa"`
}

type free struct {
	CPU     string                `json:"cpu,omitempty"`
	Memory  map[string]zoneMemory `json:"mem,omitempty"`
	Devices map[string][]string   `json:"dev,omitempty"`
}

type zoneMemory struct {
	Free  map[string]uint64 `json:"free"`
	Cells []int             `json:"cells"`
	N     int               `json:"n"`
}

type resolved struct {
	ReservedCPUs string  `json:"reserved_cpus"`
	Allocatable  amounts `json:"allocatable"`
}
