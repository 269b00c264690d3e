// KAI-Scheduler: its session with the default plugins, without those that ask its cache (predicates, dynamicresources), and its allocate action.
//
// "allocate" takes a case in the form of tests/conformance's KAI recordings and answers with `expected`: status and node of each task, and why jobs were
// refused. "subset" answers with the node sets that the topology plugin tries for a job, in their order. "time" measures the choice of node
// sets and the allocation of the last job, `repeat` times each.
package main

import (
	"encoding/json"
	"sort"

	"golang.org/x/exp/maps"

	kaiv1alpha1 "github.com/NVIDIA/KAI-scheduler/pkg/apis/kai/v1alpha1"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/allocate"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions/common"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/common_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/node_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache/cluster_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/log"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils"
)

var questions = map[string]question{"allocate": place, "subset": subset, "time": timeIt}

// needCache are plugins that ask the cache for what only an API server has.
var needCache = map[string]bool{"predicates": true, "dynamicresources": true}

func init() {
	if err := log.InitLoggers(0); err != nil {
		panic(err)
	}
	test_utils.InitTestingInfrastructure()
}

type amounts map[string]float64

type kase struct {
	Topologies  []topology                       `json:"topologies"`
	Nodes       []node                           `json:"nodes"`
	Queues      []test_utils.TestQueueBasic      `json:"queues"`
	Departments []test_utils.TestDepartmentBasic `json:"departments"`
	Jobs        []job                            `json:"jobs"`
	Repeat      int                              `json:"repeat"`
}

type topology struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

type node struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Allocatable amounts           `json:"allocatable"`
}

type job struct {
	Name     string `json:"name"`
	Queue    string `json:"queue"`
	Priority int32  `json:"priority"`
	Tree     set    `json:"rootSubGroupSet"`
	Tasks    []task `json:"tasks"`
}

type set struct {
	Name       string      `json:"name"`
	Constraint *constraint `json:"topologyConstraint"`
	SubGroups  []set       `json:"subGroups"`
	PodSets    []podSet    `json:"podSets"`
}

type podSet struct {
	Name         string      `json:"name"`
	MinAvailable int32       `json:"minAvailable"`
	Constraint   *constraint `json:"topologyConstraint"`
}

type constraint struct {
	Topology  string `json:"topology"`
	Required  string `json:"required"`
	Preferred string `json:"preferred"`
}

type task struct {
	Name     string  `json:"name"`
	SubGroup string  `json:"subGroup"`
	State    string  `json:"state"`
	Requests amounts `json:"requests"`
	Node     string  `json:"node"`
}

type placed struct {
	Status string `json:"status"`
	Node   string `json:"node,omitempty"`
}

func place(line []byte) (any, error) {
	asked, err := read(line)
	if err != nil {
		return nil, err
	}
	session := asked.session()
	allocate.New().Execute(session)
	tasks := map[string]placed{}
	refused := map[string][]string{}
	for _, job := range session.PodGroupInfos {
		for _, each := range job.GetAllPodsMap() {
			tasks[each.Name] = placed{Status: each.Status.String(), Node: each.NodeName}
		}
		for _, problem := range job.JobFitErrors {
			refused[job.Name] = append(refused[job.Name], problem.Messages()...)
		}
	}
	return map[string]any{"expected": map[string]any{"tasks": tasks}, "refused": refused}, nil
}

func subset(line []byte) (any, error) {
	asked, err := read(line)
	if err != nil {
		return nil, err
	}
	session := asked.session()
	sets, err := asked.subset(session)
	if err != nil {
		return nil, err
	}
	return map[string]any{"sets": sets}, nil
}

func (asked *kase) last(session *framework.Session) *podgroup_info.PodGroupInfo {
	return session.PodGroupInfos[common_info.PodGroupID(asked.Jobs[len(asked.Jobs)-1].Name)]
}

func (asked *kase) subset(session *framework.Session) ([][]string, error) {
	job := asked.last(session)
	session.PreJobAllocation(job)
	tasks := podgroup_info.GetTasksToAllocate(job, session.PodSetOrderFn, session.TaskOrderFn, true)
	found, err := session.SubsetNodesFn(job, &job.RootSubGroupSet.SubGroupInfo, job.RootSubGroupSet.GetAllPodSets(), tasks, maps.Values(session.Nodes))
	if err != nil {
		return nil, err
	}
	sets := [][]string{}
	for _, each := range found {
		names := []string{}
		for _, node := range each {
			names = append(names, node.Name)
		}
		sort.Strings(names)
		sets = append(sets, names)
	}
	return sets, nil
}

func timeIt(line []byte) (any, error) {
	asked, err := read(line)
	if err != nil {
		return nil, err
	}
	session := asked.session()
	job := asked.last(session)
	nodes := maps.Values(session.Nodes)
	var fits bool
	found := map[string]string{}
	subsets := timed(asked.Repeat, func() { _, err = asked.choose(session, nodes) })
	if err != nil {
		return nil, err
	}
	allocations := []int64{}
	for range asked.Repeat {
		statement := session.Statement()
		allocations = append(allocations, timed(1, func() { fits = common.AllocateJob(session, statement, nodes, job, false) })...)
		for _, each := range job.GetAllPodsMap() {
			if each.NodeName != "" {
				found[each.Name] = each.NodeName
			}
		}
		statement.Discard()
	}
	return map[string]any{"subset_ns": subsets, "allocate_ns": allocations, "fits": fits, "nodes": found}, nil
}

func (asked *kase) choose(session *framework.Session, nodes []*node_info.NodeInfo) ([]node_info.NodeSet, error) {
	job := asked.last(session)
	session.PreJobAllocation(job)
	tasks := podgroup_info.GetTasksToAllocate(job, session.PodSetOrderFn, session.TaskOrderFn, true)
	return session.SubsetNodesFn(job, &job.RootSubGroupSet.SubGroupInfo, job.RootSubGroupSet.GetAllPodSets(), tasks, nodes)
}

func read(line []byte) (*kase, error) {
	asked := &kase{}
	return asked, json.Unmarshal(line, asked)
}

// quiet is a cache that binds into the void.
type quiet struct{ cache.Cache }

func (quiet) Bind(*pod_info.PodInfo, string, map[string]string) error { return nil }
func (quiet) TaskPipelined(*pod_info.PodInfo, string)                 {}

// session is what KAI opens at the start of each cycle.
func (asked *kase) session() *framework.Session {
	metadata := test_utils.TestTopologyBasic{Queues: asked.Queues, Departments: asked.Departments}
	for _, each := range asked.Topologies {
		metadata.Topologies = append(metadata.Topologies, each.object())
	}
	queues := test_utils.BuildQueueInfoMap(metadata)
	maps.Copy(queues, test_utils.BuildDepartmentInfoMap(metadata))
	cluster_info.UpdateQueueHierarchy(queues)
	jobs, onNodes := asked.jobs()
	affinity := cache.NewK8sClusterPodAffinityInfo()
	tiers := []conf.Tier{}
	for _, tier := range test_utils.BuildPlugins(metadata) {
		kept := conf.Tier{}
		for _, plugin := range tier.Plugins {
			if !needCache[plugin.Name] {
				kept.Plugins = append(kept.Plugins, plugin)
			}
		}
		tiers = append(tiers, kept)
	}
	settings := &test_utils.TestSessionConfig{Plugins: tiers}
	session := test_utils.CreateFakeSession(settings, asked.nodes(onNodes, affinity), jobs, queues, metadata, nil, false, metadata.Topologies, affinity)
	session.Cache = quiet{}
	return session
}

func (t topology) object() *kaiv1alpha1.Topology {
	found := &kaiv1alpha1.Topology{}
	found.Name = t.Name
	for _, level := range t.Levels {
		found.Spec.Levels = append(found.Spec.Levels, kaiv1alpha1.TopologyLevel{NodeLabel: level})
	}
	return found
}
