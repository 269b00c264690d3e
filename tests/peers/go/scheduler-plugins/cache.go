package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	topology "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	podlisterv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	apiconfig "sigs.k8s.io/scheduler-plugins/apis/config"
	nrtcache "sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/cache"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/podprovider"
)

type scenario struct {
	Input struct {
		Cache        string                       `json:"cache"`
		ResyncMethod *apiconfig.CacheResyncMethod `json:"resync_method"`
		InformerMode *apiconfig.CacheInformerMode `json:"informer_mode"`
	} `json:"input"`
	Steps []struct {
		Op       string                         `json:"op"`
		Node     string                         `json:"node"`
		Pod      *v1.Pod                        `json:"pod"`
		Pods     []*v1.Pod                      `json:"pods"`
		Topology *topology.NodeResourceTopology `json:"nrt"`
	} `json:"steps"`
}

// world is an API server with reports, and what the pod informer has.
type world struct {
	client.WithWatch
	podlisterv1.PodLister
	reports map[string]*topology.NodeResourceTopology
	pods    []*v1.Pod
}

func (w *world) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	found, known := w.reports[key.Name]
	if !known {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	found.DeepCopyInto(object.(*topology.NodeResourceTopology))
	return nil
}

func (w *world) List(_ context.Context, all client.ObjectList, _ ...client.ListOption) error {
	for _, each := range w.reports {
		list := all.(*topology.NodeResourceTopologyList)
		list.Items = append(list.Items, *each.DeepCopy())
	}
	return nil
}

// Watch never brings anything: events are steps of a scenario.
func (w *world) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}

type lister struct{ *world }

func (l lister) List(labels.Selector) ([]*v1.Pod, error)    { return l.pods, nil }
func (l lister) Pods(string) podlisterv1.PodNamespaceLister { panic("not asked for") }

func liveThrough(line []byte) (any, error) {
	asked := &scenario{}
	if err := json.Unmarshal(line, asked); err != nil {
		return nil, err
	}
	var raw struct {
		Steps []map[string]any `json:"steps"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, err
	}
	here := &world{reports: map[string]*topology.NodeResourceTopology{}}
	var cache nrtcache.Interface
	for index, step := range asked.Steps {
		var expect any
		switch step.Op {
		case "put_nrt":
			here.reports[step.Topology.Name] = step.Topology
		case "delete_nrt":
			delete(here.reports, step.Node)
		case "set_pods":
			here.pods = step.Pods
		case "start":
			var err error
			if cache, err = asked.start(here); err != nil {
				return nil, err
			}
		case "reserve":
			cache.ReserveNodeResources(step.Node, step.Pod)
		case "unreserve":
			cache.UnreserveNodeResources(step.Node, step.Pod)
		case "post_bind":
			cache.PostBind(step.Node, step.Pod)
		case "filter_rejected":
			cache.NodeMaybeOverReserved(step.Node, &v1.Pod{})
		case "foreign_pod":
			cache.NodeHasForeignPods(step.Node, &v1.Pod{})
		case "resync":
			cache.(*nrtcache.OverReserve).Resync()
		case "view":
			found, info := cache.GetCachedNRTCopy(context.Background(), step.Node, &v1.Pod{})
			expect = view(found, info)
		case "desynced":
			nodes := cache.(*nrtcache.OverReserve).GetDesyncedNodes(klog.Background())
			expect = map[string]any{"maybe_overreserved": sorted(nodes.MaybeOverReserved), "config_changed": sorted(nodes.ConfigChanged)}
		default:
			return nil, fmt.Errorf("unknown step %q", step.Op)
		}
		if expect != nil {
			raw.Steps[index]["expect"] = expect
		}
	}
	return map[string]any{"steps": raw.Steps}, nil
}

func (s *scenario) start(here *world) (nrtcache.Interface, error) {
	log := klog.Background()
	switch s.Input.Cache {
	case "Passthrough":
		return nrtcache.NewPassthrough(log, here), nil
	case "DiscardReserved":
		return nrtcache.NewDiscardReserved(log, here), nil
	}
	scope := apiconfig.CacheResyncScopeOnlyResources
	settings := &apiconfig.NodeResourceTopologyCache{ResyncMethod: s.Input.ResyncMethod, InformerMode: s.Input.InformerMode, ResyncScope: &scope}
	relevant := podprovider.IsPodRelevantDedicated
	if s.Input.InformerMode != nil && *s.Input.InformerMode == apiconfig.CacheInformerShared {
		relevant = podprovider.IsPodRelevantShared
	}
	return nrtcache.NewOverReserve(context.Background(), log, settings, here, lister{here}, relevant)
}

func view(found *topology.NodeResourceTopology, info nrtcache.CachedNRTInfo) map[string]any {
	expect := map[string]any{"fresh": info.Fresh, "generation": info.Generation, "nrt": nil}
	if found == nil {
		return expect
	}
	zones := []any{}
	for _, zone := range found.Zones {
		available := map[string]string{}
		for _, each := range zone.Resources {
			available[each.Name] = each.Available.String()
		}
		zones = append(zones, map[string]any{"name": zone.Name, "available": available})
	}
	expect["nrt"] = map[string]any{"zones": zones, "attributes": found.Attributes}
	return expect
}

func sorted(names []string) []string {
	found := append([]string{}, names...)
	sort.Strings(found)
	return found
}
