"""Kueue's groups of plain pods, and the annotations by which pod sets ask for places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bayplan.dialects.kueue.pod_set import DIALECT, MUST_BE_A_LABEL, Request, request_of
from bayplan.gangs.model import Segments
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import member
from tests.unit.dialects.readings import BLOCK, RACK, gang, outline, waits, wrong

K = "kueue.x-k8s.io/"
AT = ObjectPath("Job ml/train", "metadata.annotations")
LAYERS = K + "podset-slice-required-topology-constraints"
EXAMPLE = 'must be such as [{"topology": "example.com/rack", "size": 8}]'


def asking(**annotations: str) -> dict[str, str]:
    """Annotations of a pod set by their short names: `required_topology` is kueue.x-k8s.io/podset-required-topology."""
    return {f"{K}podset-{name.replace('_', '-')}": value for name, value in annotations.items()}


def grouped(name: str, total: int = 2, role: str = "", node: str = "", **annotations: str) -> Pod:
    labels = {K + "pod-group-name": "pg", **({K + "role-hash": role} if role else {})}
    return member(name, labels, {K + "pod-group-total-count": str(total), **asking(**annotations)}, node=node)


class TestRequests:
    @pytest.mark.parametrize(
        "annotations, request_read",
        [
            ({}, Request()),
            (asking(required_topology=RACK), Request(required=RACK)),
            (asking(preferred_topology=RACK), Request(preferred=RACK)),
            (asking(unconstrained_topology="true"), Request()),
            (
                asking(required_topology=BLOCK, slice_required_topology=RACK, slice_size="4"),
                Request(BLOCK, slices=(Segments(4, RACK),)),
            ),
            (
                {LAYERS: '[{"topology": "block", "size": 8}, {"topology": "rack", "size": 4}]'},
                Request(slices=(Segments(8, "block"), Segments(4, "rack"))),
            ),
            (asking(required_topology=RACK, group_name="lead"), Request(RACK, shares_with="lead")),
        ],
    )
    def test_are_read(self, annotations: dict[str, str], request_read: Request) -> None:
        assert request_of(annotations, AT) == request_read

    @pytest.mark.parametrize(
        "annotations, key, told",
        [
            (
                asking(required_topology=RACK, preferred_topology=RACK),
                "podset-preferred-topology",
                f'"{RACK}" cannot stand beside {K}podset-required-topology: only one of them may be given',
            ),
            (asking(required_topology=""), "podset-required-topology", f'"" {MUST_BE_A_LABEL}'),
            (asking(preferred_topology="a rack!"), "podset-preferred-topology", f'"a rack!" {MUST_BE_A_LABEL}'),
            (
                asking(slice_required_topology="/", slice_size="2"),
                "podset-slice-required-topology",
                f'"/" {MUST_BE_A_LABEL}',
            ),
            (
                asking(unconstrained_topology="yes"),
                "podset-unconstrained-topology",
                '"yes" must be "true" or "false"',
            ),
            (asking(slice_size="4"), "podset-slice-size", f'"4" needs {K}podset-slice-required-topology'),
            (
                asking(slice_required_topology=RACK),
                "podset-slice-required-topology",
                f'"{RACK}" needs {K}podset-slice-size',
            ),
            (
                asking(slice_required_topology=RACK, slice_size="0"),
                "podset-slice-size",
                '"0" must be a whole number, 1 or more',
            ),
            (
                asking(slice_required_topology=RACK, slice_size="\u0664"),
                "podset-slice-size",
                '"\u0664" must be a whole number, 1 or more',
            ),
            (
                asking(required_topology=RACK, group_name="7"),
                "podset-group-name",
                '"7" must not be a number',
            ),
            (
                asking(group_name="lead"),
                "podset-group-name",
                f'"lead" needs {K}podset-required-topology or {K}podset-preferred-topology',
            ),
        ],
    )
    def test_wrong_ones_are_named(self, annotations: dict[str, str], key: str, told: str) -> None:
        with pytest.raises(InvalidObject) as caught:
            request_of(annotations, AT)
        assert str(caught.value) == f'Job ml/train: metadata.annotations["{K}{key}"]: {told}'

    @pytest.mark.parametrize(
        "written, told",
        [
            ("[]", " has 0 layers: must be 1 to 3"),
            (
                '[{"topology": "a", "size": 4}, {"topology": "b", "size": 3}]',
                ": size 3 of layer 2 must divide 4, the size before it",
            ),
            ('[{"topology": "a", "size": 0}]', ": size 0 of layer 1 must be 1 or more"),
            ('[{"topology": "a b", "size": 4}]', f': topology "a b" of layer 1 {MUST_BE_A_LABEL}'),
            ("no JSON", f" is not JSON: invalid character; {EXAMPLE}"),
            ('[{"topology": "a"}]', f": [0].size: is missing; {EXAMPLE}"),
        ],
    )
    def test_layers_that_cannot_be_are_named_with_key_and_value(self, written: str, told: str) -> None:
        with pytest.raises(InvalidObject) as caught:
            request_of({LAYERS: written}, AT)
        assert str(caught.value) == f'Job ml/train: metadata.annotations["{LAYERS}"]: "{written}"{told}'


class TestPodGroups:
    def test_all_pods_of_a_group_start_together(self) -> None:
        found = gang(DIALECT, None, [grouped("b", required_topology=RACK), grouped("a", required_topology=RACK)])
        assert (found.name, found.topology, found.root.required) == ("ml/pg", "network", RACK)
        assert outline(found.root) == {"": (["a", "b"], 2)}

    def test_a_label_that_is_no_level_remembers_who_asks_for_it(self) -> None:
        """No node may carry it: then the annotation is named, and what there is."""
        found = gang(DIALECT, None, [grouped("a", 1, required_topology="example.com/rak")])
        key = f'metadata.annotations["{K}podset-required-topology"]'
        assert found.topology == "nodes by example.com/rak"
        levels = f"example.com/zone, {BLOCK}, {RACK}, kubernetes.io/hostname"
        assert found.asked_in == f"Pod ml/a: {key} asks for it; known levels: {levels}"
        assert gang(DIALECT, None, [grouped("a", 1, required_topology=RACK)]).asked_in == ""

    def test_pods_tell_how_many_they_are(self) -> None:
        assert waits(DIALECT, None, [grouped("a", 3), grouped("b", 3)]) == "waits for pods: 2 of 3 have arrived"

    def test_late_members_do_not_wait_for_those_that_have_ended(self) -> None:
        found = gang(DIALECT, None, [grouped("a", 3, node="n1"), grouped("b", 3)])
        assert outline(found.root) == {"": (["b"], 1)}

    def test_fast_admission_does_not_wait(self) -> None:
        pod = grouped("a", 3)
        assert pod.metadata.annotations is not None
        pod.metadata.annotations[K + "pod-group-fast-admission"] = "true"
        assert outline(gang(DIALECT, None, [pod]).root) == {"": (["a"], 1)}

    def test_roles_are_groups(self) -> None:
        pods = [grouped("l", 3, role="x", required_topology=RACK), *_workers(3, required_topology=BLOCK)]
        found = gang(DIALECT, None, pods)
        assert outline(found.root) == {"pod-set-0": (["l"], 1), "pod-set-1": (["w-0", "w-1"], 2)}
        assert [group.required for group in found.root.groups] == [RACK, BLOCK]

    def test_roles_that_share_a_domain_are_in_a_group_around_them(self) -> None:
        wish: dict[str, Any] = {"required_topology": RACK, "group_name": "both"}
        found = gang(DIALECT, None, [grouped("l", 3, role="x", **wish), *_workers(3, **wish)])
        (around,) = found.root.groups
        assert (around.name, around.required) == ("both", RACK)
        assert [(group.name, group.required) for group in around.groups] == [("pod-set-0", None), ("pod-set-1", None)]

    def test_pods_that_disagree_about_it_are_both_named(self) -> None:
        key = f'metadata.annotations["{K}pod-group-total-count"]'
        told = f"Pod ml/q: {key}: 4 is not the 2 of pod ml/p: all pods of a group must say the same"
        pods = [grouped("p", 2), grouped("q", 4)]
        assert wrong(DIALECT, None, pods) == wrong(DIALECT, None, pods[::-1]) == told

    def test_more_pods_than_the_group_has_are_an_error_until_it_runs(self) -> None:
        key = f'metadata.annotations["{K}pod-group-total-count"]'
        told = f'Pod ml/a: {key}: "2" is fewer than the 3 pods that name the group; it must be their number'
        pods = [grouped("a", 2), grouped("b", 2)]
        assert wrong(DIALECT, None, [*pods, grouped("c", 2)]) == told
        started = gang(DIALECT, None, [*pods, grouped("c", 2, node="n1")])
        assert [pod.metadata.name for pod in started.pods] == ["a", "b"]

    def test_a_misspelt_wish_is_not_lost_in_silence(self) -> None:
        pods = [grouped("a", 2), grouped("b", 2, required_topolgy=RACK)]
        told = f'"{RACK}" is not known; did you mean {K}podset-required-topology?'
        assert wrong(DIALECT, None, pods) == f'Pod ml/b: metadata.annotations["{K}podset-required-topolgy"]: {told}'

    @pytest.mark.parametrize("text", ["", "0", "two", "\u0664"])
    def test_a_number_that_is_none_is_named(self, text: str) -> None:
        pod = member("a", {K + "pod-group-name": "pg"}, {K + "pod-group-total-count": text})
        told = f'metadata.annotations["{K}pod-group-total-count"]: "{text}" must be the number of pods, 1 or more'
        assert wrong(DIALECT, None, [pod]) == f"Pod ml/a: {told}"


def _workers(total: int, **annotations: str) -> Sequence[Pod]:
    return [grouped(f"w-{number}", total, role="y", **annotations) for number in range(2)]
