package noderesourcetopology

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	apiconfig "sigs.k8s.io/scheduler-plugins/apis/config"
	nrtcache "sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology/cache"
)

// NewWithCache is the plugin with a cache of the caller's, without an API server.
func NewWithCache(cache nrtcache.Interface, strategy apiconfig.ScoringStrategyType, weights map[v1.ResourceName]int64) (*TopologyMatch, error) {
	score, err := getScoringStrategyFunction(strategy)
	if err != nil {
		return nil, err
	}
	return &TopologyMatch{
		logger:              klog.Background(),
		resourceToWeightMap: weights,
		nrtCache:            cache,
		scoreStrategyFunc:   score,
		scoreStrategyType:   strategy,
	}, nil
}
