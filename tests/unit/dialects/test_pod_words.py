"""Keys of labels and annotations that were meant to put a pod into a gang, and do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bayplan.dialects.pod_words import OWN_FAMILY, word_remarks
from tests.builders.gangs import member

LABELS = "Pod ml/w-0: metadata.labels"
ANNOTATIONS = "Pod ml/w-0: metadata.annotations"


@pytest.mark.parametrize(
    "labels, annotations, told",
    [
        ({"bayplan.io/pod-grup": "g"}, {},
         f'{LABELS}["bayplan.io/pod-grup"]: "g" is not known; did you mean bayplan.io/pod-group?'),
        ({"scheduling.x-k8s.io/podgroup": "g"}, {}, "did you mean scheduling.x-k8s.io/pod-group?"),
        ({"kai.scheduler/subgroup": "a"}, {}, "did you mean kai.scheduler/subgroup-name?"),
        ({"kueue.x-k8s.io/pod-group-nam": "g"}, {}, "did you mean kueue.x-k8s.io/pod-group-name?"),
        ({}, {"scheduling.volcano.sh/groupname": "g"}, "did you mean scheduling.volcano.sh/group-name?"),
        ({}, {"volcano.sh/numa-topology-polcy": "restricted"}, "did you mean volcano.sh/numa-topology-policy?"),
        ({}, {"kueue.x-k8s.io/pod-group-totalcount": "2"}, "did you mean kueue.x-k8s.io/pod-group-total-count?"),
        ({"bayplan.io/whatever": "x"}, {}, 'bayplan.io/whatever"]: "x" is not known; expected bayplan.io/pod-group, '),
        ({}, {"bayplan.io/pod-group": "g"},
         f'{ANNOTATIONS}["bayplan.io/pod-group"]: "g" has no effect: it is read from the label of this name'),
        ({}, {"scheduling.x-k8s.io/pod-group": "g"}, "it is read from the label of this name"),
        ({"pod-group-name": "g"}, {},
         f'{LABELS}.pod-group-name: "g" has no effect: it is read from the annotation of this name'),
        ({"scheduling.volcano.sh/group-name": "g"}, {}, "it is read from the annotation of this name"),
        ({"kai.scheduler/topology-required-placement": "rack"}, {}, "it is read from the annotation of this name"),
        ({"kueue.x-k8s.io/podset-required-topology": "rack"}, {}, "it is read from the annotation of this name"),
        ({"scheduling.x-k8s.io/pod-group": "g"}, {"kueue.x-k8s.io/podset-required-topology": "rack"},
         "\"rack\" has no effect: coscheduling's PodGroups know no levels"),
    ],
)  # fmt: skip
def test_a_key_that_names_no_gang_is_told(labels: dict[str, str], annotations: dict[str, str], told: str) -> None:
    (problem,) = word_remarks(member("w-0", labels, annotations))
    assert told in str(problem)


def test_every_key_that_bayplan_writes_or_reads_on_pods_is_known() -> None:
    """Those of reports and nodes are listed here; a new key belongs to one of the two."""
    of_reports = (
        "cpus devices free-cpus left-out made-at memory-group pods reserved-cpus stale-since threads-per-core "
        "virtual-kubelet"
    )
    sources = (Path(__file__).parents[4] / "src" / "bayplan").rglob("*.py")
    found = {key for file in sources for key in re.findall(r'"(bayplan\.io/[a-z-]+)"', file.read_text())}
    assert found - {f"bayplan.io/{name}" for name in of_reports.split()} <= set(OWN_FAMILY.known)


@pytest.mark.parametrize(
    "labels, annotations",
    [
        ({"app": "x", "bayplan.io/pod-group": "g", "bayplan.io/group": "a"},
         {"bayplan.io/rank": "3", "bayplan.io/path": "a"}),
        ({"bayplan.io/rank": "3"},
         {"bayplan.io/numa-zones": "{}", "bayplan.io/grouped": "alone", "bayplan.io/gang": "true"}),
        ({"volcano.sh/job-name": "j", "volcano.sh/task-spec": "t"},
         {"volcano.sh/template-uid": "u", "scheduling.k8s.io/group-name": "g"}),
        ({"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/managed": "true"},
         {"kueue.x-k8s.io/pod-group-serving": "true"}),
        ({"kai.scheduler/queue": "q", "kai.scheduler/node-pool": "p"},
         {"kai.scheduler/topology-required-placement": "rack"}),
        ({"pod-group-name": "g"}, {"pod-group-name": "g"}),
    ],
)  # fmt: skip
def test_keys_that_mean_something_are_silent(labels: dict[str, str], annotations: dict[str, str]) -> None:
    assert word_remarks(member("w-0", labels, annotations)) == []
