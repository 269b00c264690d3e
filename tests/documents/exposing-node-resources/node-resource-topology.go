// NodeResourceTopology is a specification for a Foo resource
type NodeResourceTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	TopologyPolicies []string `json:"topologyPolicies"`
	Zones            ZoneMap  `json:"zones"`
}

// Zone is the spec for a NodeResourceTopology resource
type Zone struct {
	Type       string           `json:"type"`
	Parent     string           `json:"parent,omitempty"`
	Costs      map[string]int   `json:"costs,omitempty"`
	Attributes map[string]int   `json:"attributes,omitempty"`
	Resources  ResourceInfoMap  `json:"resources,omitempty"`
}

type ResourceInfo struct {
	Allocatable string `json:"allocatable"`
	Capacity    string `json:"capacity"`
}

type ZoneMap map[string]Zone
type ResourceInfoMap map[string]ResourceInfo
