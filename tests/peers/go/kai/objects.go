package main

import (
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	commonconstants "github.com/NVIDIA/KAI-scheduler/pkg/common/constants"
	pg "github.com/NVIDIA/KAI-scheduler/pkg/common/podgroup"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/common_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/node_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_status"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info/subgroup_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/resource_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/topology_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache/cluster_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/test_utils/jobs_fake"
)

var states = map[string]pod_status.PodStatus{
	"Pending":   pod_status.Pending,
	"Running":   pod_status.Running,
	"Releasing": pod_status.Releasing,
}

// list has whole CPUs, bytes and GPUs; the number of pods is a matter of its own.
func (a amounts) list() v1.ResourceList {
	found := v1.ResourceList{}
	for name, amount := range a {
		switch name {
		case "pods":
		case "cpu":
			found[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(amount*1000), resource.DecimalSI)
		default:
			found[v1.ResourceName(name)] = *resource.NewQuantity(int64(amount), resource.DecimalSI)
		}
	}
	return found
}

func (asked *kase) nodes(onNodes map[string][]*pod_info.PodInfo, affinity *cache.K8sClusterPodAffinityInfo) map[string]*node_info.NodeInfo {
	found := map[string]*node_info.NodeInfo{}
	for _, each := range asked.Nodes {
		object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: each.Name, Labels: map[string]string{}}}
		for key, value := range each.Labels {
			object.Labels[key] = value
		}
		gpus := each.Allocatable.list()[resource_info.GPUResourceName]
		object.Labels[commonconstants.GpuCountLabel] = gpus.String()
		object.Status.Allocatable = each.Allocatable.list()
		object.Status.Capacity = each.Allocatable.list()
		pods := *resource.NewQuantity(int64(each.Allocatable["pods"]), resource.DecimalSI)
		object.Status.Allocatable[v1.ResourcePods], object.Status.Capacity[v1.ResourcePods] = pods, pods
		info := node_info.NewNodeInfo(object, cluster_info.NewK8sNodePodAffinityInfo(object, affinity))
		info.MaxTaskNum = int(each.Allocatable["pods"])
		for _, running := range onNodes[each.Name] {
			_ = info.AddTask(running)
		}
		found[each.Name] = info
	}
	return found
}

// jobs stand in the order of their creation, those of a higher priority first.
func (asked *kase) jobs() (map[common_info.PodGroupID]*podgroup_info.PodGroupInfo, map[string][]*pod_info.PodInfo) {
	jobs := map[common_info.PodGroupID]*podgroup_info.PodGroupInfo{}
	onNodes := map[string][]*pod_info.PodInfo{}
	now := time.Now()
	listed := append([]job{}, asked.Jobs...)
	sort.SliceStable(listed, func(one, other int) bool { return listed[one].Priority > listed[other].Priority })
	for index, each := range listed {
		held := resource_info.EmptyResource()
		tasks := []*pod_info.PodInfo{}
		for _, written := range each.Tasks {
			info := written.info(each.Name, now)
			tasks = append(tasks, info)
			if pod_status.AllocatedStatus(info.Status) {
				held.Add(resource_info.ResourceFromResourceList(written.Requests.list()))
			}
			if pod_status.IsActiveUsedStatus(info.Status) {
				onNodes[written.Node] = append(onNodes[written.Node], info)
			}
		}
		id := common_info.PodGroupID(each.Name)
		created := now.Add(time.Duration(index-len(listed)) * time.Minute)
		preemptible := pg.CalculatePreemptibility("", each.Priority)
		jobs[id] = jobs_fake.BuildJobInfo(each.Name, "", id, held, each.Tree.object(), tasks, each.Priority, preemptible, common_info.QueueID(each.Queue), created, nil)
	}
	return jobs, onNodes
}

func (t task) info(job string, created time.Time) *pod_info.PodInfo {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              t.Name,
			UID:               types.UID(t.Name),
			CreationTimestamp: metav1.Time{Time: created},
			Annotations:       map[string]string{commonconstants.PodGroupAnnotationForPod: job},
		},
		Spec: v1.PodSpec{
			NodeName:      t.Node,
			SchedulerName: "kai-scheduler",
			Containers:    []v1.Container{{Resources: v1.ResourceRequirements{Requests: t.Requests.list()}}},
		},
	}
	info := pod_info.NewTaskInfo(pod)
	info.Status = states[t.State]
	info.SubGroupName = t.SubGroup
	return info
}

func (s set) object() *subgroup_info.SubGroupSet {
	name := s.Name
	if name == "" {
		name = subgroup_info.RootSubGroupSetName
	}
	found := subgroup_info.NewSubGroupSet(name, s.Constraint.info())
	for _, inner := range s.SubGroups {
		found.AddSubGroup(inner.object())
	}
	for _, each := range s.PodSets {
		found.AddPodSet(subgroup_info.NewPodSet(each.Name, each.MinAvailable, each.Constraint.info()))
	}
	return found
}

func (c *constraint) info() *topology_info.TopologyConstraintInfo {
	if c == nil {
		return nil
	}
	return &topology_info.TopologyConstraintInfo{Topology: c.Topology, RequiredLevel: c.Required, PreferredLevel: c.Preferred}
}
