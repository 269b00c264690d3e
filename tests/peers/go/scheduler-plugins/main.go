// scheduler-plugins' NodeResourceTopologyMatch: its filter, its four scores and its caches.
//
// "filter" and "score" take a case in the form of tests/conformance's recordings and answer with `expect`. "cache" lives through the steps of a
// scenario. "time" measures the filter or the score of every node, `repeat` times.
package main

import (
	"context"
	"encoding/json"

	"github.com/go-logr/logr"
	topology "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	apiconfig "sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
	nrtcache "sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/cache"
)

var questions = map[string]question{"filter": filter, "score": score, "cache": liveThrough, "time": timeAll}

func init() { klog.SetLogger(logr.Discard()) }

type kase struct {
	Input struct {
		Pod        *v1.Pod                          `json:"pod"`
		Node       *v1.Node                         `json:"node"`
		Nodes      []*v1.Node                       `json:"nodes"`
		Topology   *topology.NodeResourceTopology   `json:"nrt"`
		Topologies []*topology.NodeResourceTopology `json:"nrts"`
		Fresh      *bool                            `json:"cache_fresh"`
		Stale      []string                         `json:"stale_nodes"`
		Strategy   apiconfig.ScoringStrategyType    `json:"scoring_strategy"`
		Weights    map[v1.ResourceName]int64        `json:"weights"`
	} `json:"input"`
	What   string `json:"what"`
	Repeat int    `json:"repeat"`
}

// fixed is a cache that never changes.
type fixed struct {
	nrtcache.Interface
	reports map[string]*topology.NodeResourceTopology
	stale   map[string]bool
}

func (f fixed) GetCachedNRTCopy(_ context.Context, node string, _ *v1.Pod) (*topology.NodeResourceTopology, nrtcache.CachedNRTInfo) {
	return f.reports[node].DeepCopy(), nrtcache.CachedNRTInfo{Fresh: !f.stale[node]}
}

func (fixed) NodeMaybeOverReserved(string, *v1.Pod) {}

func read(line []byte) (*kase, *noderesourcetopology.TopologyMatch, error) {
	asked := &kase{}
	if err := json.Unmarshal(line, asked); err != nil {
		return nil, nil, err
	}
	given := &asked.Input
	if given.Node != nil {
		given.Nodes = []*v1.Node{given.Node}
	}
	if given.Topology != nil {
		given.Topologies = []*topology.NodeResourceTopology{given.Topology}
	}
	if given.Fresh != nil && !*given.Fresh {
		given.Stale = []string{given.Node.Name}
	}
	if given.Strategy == "" {
		given.Strategy = apiconfig.LeastAllocated
	}
	cache := fixed{reports: map[string]*topology.NodeResourceTopology{}, stale: map[string]bool{}}
	for _, each := range given.Topologies {
		cache.reports[each.Name] = each
	}
	for _, name := range given.Stale {
		cache.stale[name] = true
	}
	plugin, err := noderesourcetopology.NewWithCache(cache, given.Strategy, given.Weights)
	return asked, plugin, err
}

func infoOf(node *v1.Node) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

func filter(line []byte) (any, error) {
	asked, plugin, err := read(line)
	if err != nil {
		return nil, err
	}
	status := plugin.Filter(context.Background(), nil, asked.Input.Pod, infoOf(asked.Input.Node))
	found := map[string]any{"allowed": status.IsSuccess(), "qos": v1qos.GetPodQOS(asked.Input.Pod)}
	if !status.IsSuccess() {
		found["code"], found["reason"] = status.Code().String(), status.Message()
	}
	return map[string]any{"expect": found}, nil
}

func score(line []byte) (any, error) {
	asked, plugin, err := read(line)
	if err != nil {
		return nil, err
	}
	scores := map[string]int64{}
	for _, node := range asked.Input.Nodes {
		found, status := plugin.Score(context.Background(), nil, asked.Input.Pod, infoOf(node))
		if !status.IsSuccess() {
			return nil, status.AsError()
		}
		scores[node.Name] = found
	}
	return map[string]any{"expect": map[string]any{"scores": scores, "qos": v1qos.GetPodQOS(asked.Input.Pod)}}, nil
}

func timeAll(line []byte) (any, error) {
	asked, plugin, err := read(line)
	if err != nil {
		return nil, err
	}
	infos := make([]fwk.NodeInfo, 0, len(asked.Input.Nodes))
	for _, node := range asked.Input.Nodes {
		infos = append(infos, infoOf(node))
	}
	passed, scores := make([]bool, len(infos)), make([]int64, len(infos))
	took := timed(asked.Repeat, func() {
		for index, info := range infos {
			if asked.What == "score" {
				scores[index], _ = plugin.Score(context.Background(), nil, asked.Input.Pod, info)
			} else {
				passed[index] = plugin.Filter(context.Background(), nil, asked.Input.Pod, info).IsSuccess()
			}
		}
	})
	return map[string]any{"ns": took, "passed": passed, "scores": scores}, nil
}
