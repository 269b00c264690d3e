package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	cache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/resources"
	utiltas "sigs.k8s.io/kueue/pkg/util/tas"
)

func (each amounts) requests() resources.Requests {
	return resources.NewRequestsFromMap(resources.MapRequests(each))
}

func list(written map[corev1.ResourceName]string) corev1.ResourceList {
	amounts := corev1.ResourceList{}
	for name, amount := range written {
		amounts[name] = resource.MustParse(amount)
	}
	return amounts
}

func (each node) object() *corev1.Node {
	ready := corev1.ConditionStatus(each.Ready)
	if each.Ready == "" {
		ready = corev1.ConditionTrue
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: each.Name, Labels: each.Labels},
		Spec:       corev1.NodeSpec{Taints: each.Taints, Unschedulable: each.Unschedulable},
		Status: corev1.NodeStatus{
			Allocatable: list(each.Allocatable),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
		},
	}
}

func (each pod) object() *corev1.Pod {
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: each.Name, Namespace: each.Namespace},
		Spec:       corev1.PodSpec{NodeName: each.Node},
		Status:     corev1.PodStatus{Phase: corev1.PodPhase(each.Phase)},
	}
	for _, container := range each.Containers {
		resources := corev1.ResourceRequirements{Requests: list(container.Requests)}
		object.Spec.Containers = append(object.Spec.Containers, corev1.Container{Resources: resources})
	}
	return object
}

func (each podSet) request() cache.TASPodSetRequests {
	spec := corev1.PodSpec{Tolerations: each.Tolerations, NodeSelector: each.NodeSelector}
	if each.NodeAffinity != nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: each.NodeAffinity}
	}
	return cache.TASPodSetRequests{
		PodSet: &kueue.PodSet{
			Name:            kueue.PodSetReference(each.Name),
			Count:           each.Count,
			TopologyRequest: each.TopologyRequest,
			Template:        corev1.PodTemplateSpec{Spec: spec},
		},
		SinglePodRequests:  each.Requests.requests(),
		Count:              each.Count,
		Flavor:             flavorName,
		Implied:            each.Implied,
		PodSetGroupName:    each.PodSetGroupName,
		PreviousAssignment: each.PreviousAssignment.encoded(),
	}
}

func (each *running) object() *kueue.Workload {
	admission := &kueue.Admission{ClusterQueue: queueName}
	for _, admitted := range each.Admission {
		admission.PodSetAssignments = append(admission.PodSetAssignments, kueue.PodSetAssignment{
			Name:               kueue.PodSetReference(admitted.PodSet),
			Count:              &admitted.Count,
			TopologyAssignment: admitted.TopologyAssignment.encoded(),
		})
	}
	unhealthy := make([]kueue.UnhealthyNode, 0, len(each.UnhealthyNodes))
	for _, name := range each.UnhealthyNodes {
		unhealthy = append(unhealthy, kueue.UnhealthyNode{Name: name})
	}
	return &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Name:            each.Name,
			Namespace:       each.Namespace,
			UID:             types.UID(each.UID),
			Annotations:     each.Annotations,
			OwnerReferences: each.Owners,
		},
		Status: kueue.WorkloadStatus{Admission: admission, UnhealthyNodes: unhealthy},
	}
}

func (each *assignment) encoded() *kueue.TopologyAssignment {
	if each == nil {
		return nil
	}
	internal := &utiltas.TopologyAssignment{Levels: each.Levels}
	for _, one := range each.Domains {
		internal.Domains = append(internal.Domains, utiltas.TopologyDomainAssignment{Values: one.Values, Count: one.Count})
	}
	return utiltas.V1Beta2From(internal)
}
