// Kueue's Topology Aware Scheduling: its cache, its snapshot and FindTopologyAssignmentsForFlavor.
//
// "assign" takes a case in the form of tests/conformance's Kueue recordings and answers with `expected`: an assignment
// or a reason for each pod set. "time" measures the snapshot and the assignment of the same case, `repeat` times each.
package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	cache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	utiltas "sigs.k8s.io/kueue/pkg/util/tas"
	"sigs.k8s.io/kueue/pkg/workload"
)

const (
	flavorName = "flavor"
	queueName  = "queue"
)

var questions = map[string]question{"assign": assign, "time": timeIt}

type amounts map[corev1.ResourceName]int64

type kase struct {
	Gates struct {
		Explicit map[string]bool `json:"explicit"`
	} `json:"gates"`
	Topology struct {
		Name   string   `json:"name"`
		Levels []string `json:"levels"`
	} `json:"topology"`
	Flavor struct {
		NodeLabels  map[string]string   `json:"nodeLabels"`
		Tolerations []corev1.Toleration `json:"tolerations"`
	} `json:"flavor"`
	Nodes      []node   `json:"nodes"`
	NonTASPods []pod    `json:"nonTASPods"`
	PriorUsage usages   `json:"priorUsage"`
	PodSets    []podSet `json:"podSets"`
	Workload   *running `json:"workload"`
	Repeat     int      `json:"repeat"`
}

type node struct {
	Name          string                         `json:"name"`
	Labels        map[string]string              `json:"labels"`
	Allocatable   map[corev1.ResourceName]string `json:"allocatable"`
	Taints        []corev1.Taint                 `json:"taints"`
	Unschedulable bool                           `json:"unschedulable"`
	Ready         string                         `json:"ready"`
}

type pod struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Node       string `json:"node"`
	Phase      string `json:"phase"`
	Containers []struct {
		Requests map[corev1.ResourceName]string `json:"requests"`
	} `json:"containers"`
}

type usages struct {
	Own           []usage `json:"own"`
	SiblingFlavor []usage `json:"siblingFlavor"`
}

type usage struct {
	Values            []string `json:"values"`
	SinglePodRequests amounts  `json:"singlePodRequests"`
	Count             int32    `json:"count"`
}

type podSet struct {
	Name               string                       `json:"name"`
	Count              int32                        `json:"count"`
	Requests           amounts                      `json:"requests"`
	TopologyRequest    *kueue.PodSetTopologyRequest `json:"topologyRequest"`
	Implied            bool                         `json:"implied"`
	PodSetGroupName    *string                      `json:"podSetGroupName"`
	Tolerations        []corev1.Toleration          `json:"tolerations"`
	NodeSelector       map[string]string            `json:"nodeSelector"`
	NodeAffinity       *corev1.NodeAffinity         `json:"nodeAffinity"`
	PreviousAssignment *assignment                  `json:"previousAssignment"`
}

type running struct {
	Name           string                  `json:"name"`
	Namespace      string                  `json:"namespace"`
	UID            string                  `json:"uid"`
	Annotations    map[string]string       `json:"annotations"`
	Owners         []metav1.OwnerReference `json:"owners"`
	UnhealthyNodes []string                `json:"unhealthyNodes"`
	Admission      []struct {
		PodSet             string      `json:"podSet"`
		Count              int32       `json:"count"`
		TopologyAssignment *assignment `json:"topologyAssignment"`
	} `json:"admission"`
}

type assignment struct {
	Levels  []string `json:"levels"`
	Domains []domain `json:"domains"`
}

type domain struct {
	Values []string `json:"values"`
	Count  int32    `json:"count"`
}

type outcome struct {
	Assignment *assignment `json:"assignment,omitempty"`
	Reason     string      `json:"reason,omitempty"`
}

func assign(line []byte) (any, error) {
	asked, err := read(line)
	if err != nil {
		return nil, err
	}
	snapshot, err := asked.snapshot()
	if err != nil {
		return nil, err
	}
	return map[string]any{"expected": asked.place(snapshot)}, nil
}

func timeIt(line []byte) (any, error) {
	asked, err := read(line)
	if err != nil {
		return nil, err
	}
	full, err := asked.cache()
	if err != nil {
		return nil, err
	}
	var snapshot *cache.ClusterQueueSnapshot
	snapshots := timed(asked.Repeat, func() { snapshot, err = asked.snapshotOf(full) })
	if err != nil {
		return nil, err
	}
	var found map[string]outcome
	assignments := timed(asked.Repeat, func() { found = asked.place(snapshot) })
	return map[string]any{"snapshot_ns": snapshots, "assign_ns": assignments, "expected": found}, nil
}

func read(line []byte) (*kase, error) {
	asked := &kase{}
	if err := json.Unmarshal(line, asked); err != nil {
		return nil, err
	}
	return asked, setGates(asked.Gates.Explicit)
}

var changedGates map[string]bool

// setGates puts the gates of an earlier case back to their defaults: one process answers for cases with different gates.
func setGates(wanted map[string]bool) error {
	gates := utilfeature.DefaultMutableFeatureGate
	for name := range changedGates {
		if err := gates.ResetFeatureValueToDefault(featuregate.Feature(name)); err != nil {
			return err
		}
	}
	changedGates = wanted
	return gates.SetFromMap(wanted)
}

func quiet() context.Context {
	return ctrllog.IntoContext(context.Background(), logr.Discard())
}

// noObjects is an API server without anything in it: the cache asks it for the workloads of a new queue.
type noObjects struct{ client.Client }

func (noObjects) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (asked *kase) snapshot() (*cache.ClusterQueueSnapshot, error) {
	full, err := asked.cache()
	if err != nil {
		return nil, err
	}
	return asked.snapshotOf(full)
}

// cache is Kueue's cache as its controllers would have filled it.
func (asked *kase) cache() (*cache.Cache, error) {
	log := logr.Discard()
	full := cache.New(noObjects{})
	topology := &kueue.Topology{ObjectMeta: metav1.ObjectMeta{Name: asked.Topology.Name}}
	for _, level := range asked.Topology.Levels {
		topology.Spec.Levels = append(topology.Spec.Levels, kueue.TopologyLevel{NodeLabel: level})
	}
	full.AddOrUpdateTopology(log, topology)
	full.AddOrUpdateResourceFlavor(log, asked.flavor())
	for _, each := range asked.Nodes {
		full.TASCache().SyncNode(each.object())
	}
	for _, each := range asked.NonTASPods {
		if each.Node != "" {
			full.TASCache().Update(each.object(), log)
		}
	}
	return full, full.AddClusterQueue(quiet(), queue())
}

func (asked *kase) flavor() *kueue.ResourceFlavor {
	topology := kueue.TopologyReference(asked.Topology.Name)
	return &kueue.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: flavorName},
		Spec: kueue.ResourceFlavorSpec{
			NodeLabels:   asked.Flavor.NodeLabels,
			Tolerations:  asked.Flavor.Tolerations,
			TopologyName: &topology,
		},
	}
}

// queue has quota for nothing in particular: quota plays no part in where pods go.
func queue() *kueue.ClusterQueue {
	quota := kueue.ResourceQuota{Name: corev1.ResourceCPU, NominalQuota: resource.MustParse("1")}
	flavor := kueue.FlavorQuotas{Name: flavorName, Resources: []kueue.ResourceQuota{quota}}
	group := kueue.ResourceGroup{
		CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
		Flavors:          []kueue.FlavorQuotas{flavor},
	}
	return &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: queueName},
		Spec:       kueue.ClusterQueueSpec{ResourceGroups: []kueue.ResourceGroup{group}},
	}
}

func (asked *kase) snapshotOf(full *cache.Cache) (*cache.ClusterQueueSnapshot, error) {
	whole, err := full.Snapshot(quiet())
	if err != nil {
		return nil, err
	}
	snapshot := whole.ClusterQueue(queueName)
	if snapshot == nil {
		return nil, errors.New("the queue is not active")
	}
	used := make(workload.TASFlavorUsage, 0, len(asked.PriorUsage.Own)+len(asked.PriorUsage.SiblingFlavor))
	for _, each := range append(asked.PriorUsage.Own, asked.PriorUsage.SiblingFlavor...) {
		used = append(used, workload.TopologyDomainRequests{
			Values:            each.Values,
			SinglePodRequests: each.SinglePodRequests.requests(),
			Count:             each.Count,
		})
	}
	snapshot.AddUsage(workload.Usage{TAS: workload.TASUsage{flavorName: used}})
	return snapshot, nil
}

func (asked *kase) place(snapshot *cache.ClusterQueueSnapshot) map[string]outcome {
	requests := make(cache.FlavorTASRequests, 0, len(asked.PodSets))
	for _, each := range asked.PodSets {
		requests = append(requests, each.request())
	}
	var options []cache.FindTopologyAssignmentsOption
	if asked.Workload != nil {
		options = append(options, cache.WithWorkload(asked.Workload.object()))
	}
	found := map[string]outcome{}
	for name, each := range snapshot.TASFlavors[flavorName].FindTopologyAssignmentsForFlavor(quiet(), requests, options...) {
		if each.FailureReason != "" {
			found[string(name)] = outcome{Reason: each.FailureReason}
		} else {
			found[string(name)] = outcome{Assignment: written(each.TopologyAssignment)}
		}
	}
	return found
}

func written(found *utiltas.TopologyAssignment) *assignment {
	if found == nil {
		return nil
	}
	domains := make([]domain, 0, len(found.Domains))
	for _, each := range found.Domains {
		domains = append(domains, domain{Values: each.Values, Count: each.Count})
	}
	return &assignment{Levels: found.Levels, Domains: domains}
}
