package devicemanager

import (
	"path/filepath"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

// NewWithoutSocket is a manager with its checkpoint in a folder of its own.
func NewWithoutSocket(folder string, topology []cadvisorapi.Node, store topologymanager.Store) (*ManagerImpl, error) {
	return newManagerImpl(klog.Background(), filepath.Join(folder, "kubelet.sock"), topology, store)
}

// StartWithoutSocket does what Start does, and leaves out the server that plugins register at.
func (m *ManagerImpl) StartWithoutSocket(pods ActivePodsFunc, ready config.SourcesReady, containers containermap.ContainerMap, running sets.Set[string]) error {
	m.activePods, m.sourcesReady, m.containerMap, m.containerRunningSet = pods, ready, containers, running
	return m.readCheckpoint(klog.Background())
}
