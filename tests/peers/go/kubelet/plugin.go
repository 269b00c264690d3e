package main

import (
	"context"
	"sort"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin is a device plugin in this process. It prefers devices that must be included, then the lowest ids: without a preference a kubelet
// takes any, and nobody could tell which.
type plugin struct {
	pluginapi.DevicePluginClient
	resource string
}

func (p plugin) API() pluginapi.DevicePluginClient { return p }
func (p plugin) Resource() string                  { return p.resource }
func (p plugin) SocketPath() string                { return "" }

func (p plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p plugin) GetPreferredAllocation(_ context.Context, asked *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	answer := &pluginapi.PreferredAllocationResponse{}
	for _, each := range asked.ContainerRequests {
		chosen := append([]string{}, each.MustIncludeDeviceIDs...)
		included := map[string]bool{}
		for _, id := range chosen {
			included[id] = true
		}
		available := append([]string{}, each.AvailableDeviceIDs...)
		sort.Strings(available)
		for _, id := range available {
			if len(chosen) < int(each.AllocationSize) && !included[id] {
				chosen = append(chosen, id)
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return answer, nil
}

func (p plugin) Allocate(_ context.Context, asked *pluginapi.AllocateRequest, _ ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	answer := &pluginapi.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerAllocateResponse{})
	}
	return answer, nil
}

func listed(devices []device) *pluginapi.ListAndWatchResponse {
	answer := &pluginapi.ListAndWatchResponse{}
	for _, each := range devices {
		found := &pluginapi.Device{ID: each.ID, Health: pluginapi.Healthy}
		if each.Unhealthy {
			found.Health = pluginapi.Unhealthy
		}
		if len(each.NUMA) > 0 {
			found.Topology = &pluginapi.TopologyInfo{}
			for _, zone := range each.NUMA {
				found.Topology.Nodes = append(found.Topology.Nodes, &pluginapi.NUMANode{ID: zone})
			}
		}
		answer.Devices = append(answer.Devices, found)
	}
	return answer
}
