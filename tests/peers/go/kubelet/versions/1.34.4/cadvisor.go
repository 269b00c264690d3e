package main

import cadvisor "github.com/google/cadvisor/info/v1"

// What cAdvisor calls a machine's parts; its package has another name in other versions.
type (
	machineInfo = cadvisor.MachineInfo
	numaNode    = cadvisor.Node
	core        = cadvisor.Core
	cache       = cadvisor.Cache
	pagesInfo   = cadvisor.HugePagesInfo
)
