"""What users ask for by annotations, and the sentence for each that cannot be meant."""

from __future__ import annotations

import pytest

from bayplan.grouping.annotations import AnnotatedRequest, AnnotationReader, asks, meant_for_pods
from bayplan.grouping.raw import Reference
from bayplan.kube.wire.bayplan_v1alpha1 import Segment

JOB = Reference("batch/v1", "Job", "ml", "train")
RACK, BLOCK = "example.com/rack", "example.com/block"


def read(annotations: dict[str, str], segment: int | None = None) -> tuple[AnnotatedRequest, list[str]]:
    reader = AnnotationReader()
    request = reader.read(JOB, annotations, segment=segment)
    return request, [str(problem) for problem in reader.problems]


@pytest.mark.parametrize(
    "annotations, expected",
    [
        ({}, AnnotatedRequest()),
        ({"example.com/mine": "x"}, AnnotatedRequest()),
        ({"bayplan.io/gang": "true"}, AnnotatedRequest(gang=True)),
        ({"kai.scheduler/topology": "network"}, AnnotatedRequest(gang=True, topology="network")),
        ({"bayplan.io/topology": "network"}, AnnotatedRequest(gang=True, topology="network")),
        ({"kai.scheduler/topology-required-placement": BLOCK}, AnnotatedRequest(gang=True, required=BLOCK)),
        ({"kai.scheduler/topology-preferred-placement": "rack"}, AnnotatedRequest(gang=True, preferred="rack")),
        (
            {
                "kai.scheduler/segment-size": "4",
                "kai.scheduler/segment-topology-required-placement": BLOCK,
                "kai.scheduler/segment-topology-preferred-placement": RACK,
            },
            AnnotatedRequest(
                gang=True, segments=(Segment(size=4, level=BLOCK), Segment(size=4, level=RACK, preferred=True))
            ),
        ),
        ({"kueue.x-k8s.io/podset-required-topology": BLOCK}, AnnotatedRequest(gang=True, required=BLOCK)),
        ({"kueue.x-k8s.io/podset-preferred-topology": BLOCK}, AnnotatedRequest(gang=True, preferred=BLOCK)),
        ({"kueue.x-k8s.io/podset-unconstrained-topology": "true"}, AnnotatedRequest(gang=True)),
        (
            {"kueue.x-k8s.io/podset-slice-required-topology": RACK, "kueue.x-k8s.io/podset-slice-size": "8"},
            AnnotatedRequest(gang=True, segments=(Segment(size=8, level=RACK),)),
        ),
        (
            {
                "kueue.x-k8s.io/podset-slice-required-topology-constraints": '[{"topology": "example.com/block", '
                '"size": 8},'
                ' {"topology": "example.com/rack", "size": 4}]'
            },
            AnnotatedRequest(gang=True, segments=(Segment(size=8, level=BLOCK), Segment(size=4, level=RACK))),
        ),
    ],
)
def test_wishes(annotations: dict[str, str], expected: AnnotatedRequest) -> None:
    assert read(annotations) == (expected, [])


@pytest.mark.parametrize(
    "annotations, key, complaint",
    [
        ({"bayplan.io/gang": "yes"}, "bayplan.io/gang", '"yes" must be true or false'),
        ({"kai.scheduler/topology": "My Tree"}, "kai.scheduler/topology", '"My Tree" must be the name of a Topology'),
        (
            {"kai.scheduler/topology-required-placement": ""},
            "kai.scheduler/topology-required-placement",
            '"" must be a node label, such as topology.kubernetes.io/zone',
        ),
        (
            {"kai.scheduler/segment-size": "two", "kai.scheduler/segment-topology-required-placement": RACK},
            "kai.scheduler/segment-size",
            '"two" must be a whole number from 1 to 100000',
        ),
        (
            {"kai.scheduler/segment-size": "0", "kai.scheduler/segment-topology-required-placement": RACK},
            "kai.scheduler/segment-size",
            '"0" must be a whole number from 1 to 100000',
        ),
        (
            {"kai.scheduler/segment-size": "zz"},
            "kai.scheduler/segment-size",
            '"zz" must be a whole number from 1 to 100000',
        ),
        (
            {"kai.scheduler/segment-topology-required-placement": "a rack!"},
            "kai.scheduler/segment-topology-required-placement",
            '"a rack!" must be a node label, such as topology.kubernetes.io/zone',
        ),
        (
            {"kai.scheduler/segment-size": "2"},
            "kai.scheduler/segment-size",
            (
                '"2" needs kai.scheduler/segment-topology-required-placement or '
                "kai.scheduler/segment-topology-preferred-placement beside it"
            ),
        ),
        (
            {"kai.scheduler/segment-topology-required-placement": RACK},
            "kai.scheduler/segment-topology-required-placement",
            '"example.com/rack" needs kai.scheduler/segment-size beside it',
        ),
        (
            {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/podset-preferred-topology": RACK},
            "kueue.x-k8s.io/podset-preferred-topology",
            (
                '"example.com/rack" cannot stand beside kueue.x-k8s.io/podset-required-topology: '
                "only one of them may be given"
            ),
        ),
        (
            {"kueue.x-k8s.io/podset-slice-size": "2"},
            "kueue.x-k8s.io/podset-slice-size",
            '"2" needs kueue.x-k8s.io/podset-slice-required-topology',
        ),
        (
            {"kueue.x-k8s.io/podset-group-name": "7"},
            "kueue.x-k8s.io/podset-group-name",
            '"7" must not be a number',
        ),
    ],
)
def test_what_cannot_be_meant(annotations: dict[str, str], key: str, complaint: str) -> None:
    _, problems = read(annotations)
    assert problems == [f'Job ml/train: metadata.annotations["{key}"]: {complaint}']


@pytest.mark.parametrize(
    "key, meant",
    [
        ("kai.scheduler/toplogy", "kai.scheduler/topology"),
        ("kai.scheduler/toplogy-required-placement", "kai.scheduler/topology-required-placement"),
        ("kai.scheduler/segmentSize", "kai.scheduler/segment-size"),
        ("kueue.x-k8s.io/podset-required-topologie", "kueue.x-k8s.io/podset-required-topology"),
        ("kueue.x-k8s.io/pod-set-preferred-topology", "kueue.x-k8s.io/podset-preferred-topology"),
        ("bayplan.io/gangs", "bayplan.io/gang"),
        ("bayplan.io/gnag", "bayplan.io/gang"),
        ("bayplan.io/toplogy", "bayplan.io/topology"),
        ("Bayplan.io/gang", "bayplan.io/gang"),
        ("Kai.scheduler/topology-required-placement", "kai.scheduler/topology-required-placement"),
    ],
)
def test_a_misspelt_wish_is_not_lost_in_silence(key: str, meant: str) -> None:
    _, problems = read({key: "x"})
    assert asks({key: "x"})
    assert problems == [f'Job ml/train: metadata.annotations["{key}"]: is not known; did you mean {meant}?']


def test_a_key_that_resembles_none_is_told_which_there_are() -> None:
    _, problems = read({"kai.scheduler/placement": RACK})
    assert problems[0].startswith(
        'Job ml/train: metadata.annotations["kai.scheduler/placement"]: is not known; expected kai.scheduler/topology, '
    )


@pytest.mark.parametrize(
    "key",
    [
        "kai.scheduler/queue",
        "kai.scheduler/top-owner-metadata",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/pod-group-name",
        "kueue.x-k8s.io/pod-group-total-count",
    ],
)
def test_other_keys_of_these_systems_ask_for_nothing(key: str) -> None:
    assert not asks({key: "x"})
    assert read({key: "x"}) == (AnnotatedRequest(), [])


def test_two_trees_in_one_place_are_one_too_many() -> None:
    _, problems = read({"kai.scheduler/topology": "a", "bayplan.io/topology": "b"})
    assert problems == [
        (
            'Job ml/train: metadata.annotations["bayplan.io/topology"]: "b" is another tree than "a" in '
            'metadata.annotations["kai.scheduler/topology"]; a gang is placed in one'
        )
    ]


def test_two_trees_in_two_places_are_one_too_many() -> None:
    reader = AnnotationReader()
    reader.read(Reference("batch/v1", "CronJob", "ml", "nightly"), {"kai.scheduler/topology": "a"})
    reader.read(JOB, {"kai.scheduler/topology": "b"})
    assert [str(problem) for problem in reader.problems] == [
        (
            'Job ml/train: metadata.annotations["kai.scheduler/topology"]: "b" is another tree than "a" in '
            'CronJob ml/nightly: metadata.annotations["kai.scheduler/topology"]; a gang is placed in one'
        )
    ]


def test_both_languages_may_say_a_part_but_not_contradict_each_other() -> None:
    preferred = {"kai.scheduler/topology-preferred-placement": RACK}
    required = {"kueue.x-k8s.io/podset-required-topology": BLOCK}
    assert read(preferred | required) == (AnnotatedRequest(gang=True, required=BLOCK, preferred=RACK), [])
    _, problems = read({"kai.scheduler/topology-required-placement": RACK} | required)
    assert problems == [
        (
            'Job ml/train: metadata.annotations["kai.scheduler/topology-required-placement"]: '
            '"example.com/rack" is another level than '
            '"example.com/block" in kueue.x-k8s.io/podset-required-topology; only one of them can be meant'
        )
    ]


def test_a_kind_may_know_the_size_of_segments() -> None:
    request, problems = read({"kai.scheduler/segment-topology-required-placement": RACK}, segment=4)
    assert (request.segments, problems) == ((Segment(size=4, level=RACK),), [])


def test_the_nearer_place_wins_and_the_farther_fills_in() -> None:
    near, far = (
        AnnotatedRequest(required=RACK),
        AnnotatedRequest(gang=True, topology="network", required=BLOCK, preferred=RACK),
    )
    assert near.over(far) == AnnotatedRequest(gang=True, topology="network", required=RACK, preferred=RACK)


def test_a_key_with_bayplans_own_prefix_is_never_lost() -> None:
    _, problems = read({"bayplan.io/whatever": "x"})
    assert problems[0].startswith('Job ml/train: metadata.annotations["bayplan.io/whatever"]: is not known; expected ')
    assert problems[0].endswith("bayplan.io/parallelism")


def test_a_level_may_be_short_in_one_language_and_whole_in_the_other() -> None:
    both = {"kai.scheduler/topology-required-placement": "rack", "kueue.x-k8s.io/podset-required-topology": RACK}
    assert read(both)[1] == []
    assert len(read({**both, "kai.scheduler/topology-required-placement": "block"})[1]) == 1


def test_volcanos_network_annotations_are_a_remark_that_holds_no_pod() -> None:
    reader = AnnotationReader()
    reader.read(JOB, {"volcano.sh/network-topology-mode": "hard"})
    (problem,) = reader.problems
    assert not problem.holds
    told = '"hard" has no effect on this gang; write kai.scheduler/topology-required-placement or '
    assert told in str(problem)


@pytest.mark.parametrize(
    "key, said",
    [
        ("bayplan.io/pod-group", "has no effect here: it is a label of pods"),
        ("bayplan.io/group", "has no effect here: it is a label of pods"),
        ("bayplan.io/rank", "has no effect here: it is a label of pods"),
        ("bayplan.io/exclusive-topology", "has no effect here; alpha.jobset.sigs.k8s.io/exclusive-topology and"),
        ("bayplan.io/numa-zones", "has no effect here: only bayplan writes it"),
    ],
)
def test_a_key_that_nothing_reads_on_an_owner_is_a_remark(key: str, said: str) -> None:
    (problem,) = meant_for_pods(JOB, {key: "1"})
    assert not asks({key: "1"})
    assert (problem.holds, f'metadata.annotations["{key}"]: "1" {said}' in str(problem)) == (False, True)
    assert list(meant_for_pods(Reference("v1", "Pod", "ml", "train-0"), {key: "1"})) == []


@pytest.mark.parametrize("key", ["bayplan.io/max-numa-zones", "volcano.sh/numa-topology-policy"])
def test_an_annotation_of_pods_on_their_owner_is_a_remark(key: str) -> None:
    (problem,) = meant_for_pods(JOB, {key: "1"})
    assert not problem.holds
    assert f'metadata.annotations["{key}"]: "1" has no effect here; write it in the metadata' in str(problem)


def test_a_layer_of_slices_has_no_unknown_key() -> None:
    layers = '[{"topology": "example.com/rack", "size": 4, "count": 2}]'
    _, problems = read({"kueue.x-k8s.io/podset-slice-required-topology-constraints": layers})
    assert "[0].count: there is no such field" in problems[0]
