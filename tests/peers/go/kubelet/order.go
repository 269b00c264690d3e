package main

import (
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// ordered has pods first, then CPUs, then memory, then everything else by name.
func ordered(reasons []lifecycle.PredicateFailureReason) []lifecycle.PredicateFailureReason {
	rank := map[v1.ResourceName]string{v1.ResourcePods: "0", v1.ResourceCPU: "1", v1.ResourceMemory: "2"}
	key := func(index int) string {
		if lacking, is := reasons[index].(*lifecycle.InsufficientResourceError); is {
			if first, has := rank[lacking.ResourceName]; has {
				return first
			}
			return "3" + string(lacking.ResourceName)
		}
		return ""
	}
	sort.SliceStable(reasons, func(one, other int) bool { return key(one) < key(other) })
	return reasons
}
