package main

import (
	"encoding/json"
	"math/bits"

	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

type mergeCase struct {
	NUMA      []int                          `json:"numa"`
	Dist      [][]uint64                     `json:"dist"`
	Policy    string                         `json:"policy"`
	Closest   bool                           `json:"closest"`
	Providers []map[string][][2]*json.Number `json:"prov"`
}

func mergeHints(line []byte) (any, error) {
	var asked mergeCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	var zones []numaNode
	for index, id := range asked.NUMA {
		zone := numaNode{Id: id}
		if asked.Dist != nil {
			zone.Distances = asked.Dist[index]
		}
		zones = append(zones, zone)
	}
	options := map[string]string{"max-allowable-numa-nodes": "64"}
	if asked.Closest {
		options["prefer-closest-numa-nodes"] = "true"
	}
	policy, err := newPolicy(asked.Policy, zones, options)
	if err != nil {
		return nil, err
	}
	var providers []map[string][]topologymanager.TopologyHint
	for _, each := range asked.Providers {
		providers = append(providers, hints(each))
	}
	merged, admit := merge(policy, providers)
	return map[string]any{"out": map[string]any{"mask": mask(merged.NUMANodeAffinity), "pref": merged.Preferred, "admit": admit}}, nil
}

func hints(written map[string][][2]*json.Number) map[string][]topologymanager.TopologyHint {
	if written == nil {
		return nil
	}
	found := map[string][]topologymanager.TopologyHint{}
	for resource, each := range written {
		if each == nil {
			found[resource] = nil
			continue
		}
		found[resource] = []topologymanager.TopologyHint{}
		for _, pair := range each {
			hint := topologymanager.TopologyHint{Preferred: pair[1].String() == "1"}
			if pair[0] != nil {
				number, _ := pair[0].Int64()
				hint.NUMANodeAffinity = maskOf(uint64(number))
			}
			found[resource] = append(found[resource], hint)
		}
	}
	return found
}

func maskOf(number uint64) bitmask.BitMask {
	var set []int
	for number != 0 {
		bit := bits.TrailingZeros64(number)
		set = append(set, bit)
		number &^= 1 << bit
	}
	found, err := bitmask.NewBitMask(set...)
	if err != nil {
		panic(err)
	}
	return found
}

func mask(of bitmask.BitMask) *uint64 {
	if of == nil {
		return nil
	}
	var number uint64
	for _, bit := range of.GetBits() {
		number |= 1 << bit
	}
	return &number
}
