"""Submitted pods are judged as a real API server judges them: by server-side dry run with strict field validation.

    pytest tests/kubernetes/test_strict_pods.py --cases 5000 --first-seed 100000

Random pods, about half of them fine (`tests/random_pods.py`), go to the API server and through the reading that `place
-f` does. Where an admission plugin refuses a pod, validation has not been asked, and the case does not count.
"""

from __future__ import annotations

import http.client
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from bayplan.cli.shared.reading import read_all
from bayplan.kube.errors import InvalidObject, InvalidObjects, ObjectPath
from bayplan.kube.validation.fields import field_table
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.object_fields import served_table
from tests.random_pods import RUNTIME_CLASS, random_pod

SAME_VERDICT = 0.99
SAME_FIELD = 0.9
QUERY = "dryRun=All&fieldValidation=Strict"


@dataclass
class Tally:
    """What came of the comparison."""

    verdicts: Counter[tuple[bool, bool]] = field(default_factory=Counter)  # accepted by the API server, by bayplan
    not_asked: int = 0
    fields: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    @property
    def same(self) -> float:
        agreed = sum(number for (theirs, ours), number in self.verdicts.items() if theirs == ours)
        return agreed / max(self.verdicts.total(), 1)

    @property
    def same_field(self) -> float:
        return (self.fields["same"] + self.fields["closer"]) / max(self.fields.total(), 1)

    def __str__(self) -> str:
        verdicts = self.verdicts
        return (
            f"{verdicts.total()} pods: the same verdict for {self.same:.2%} "
            f"(both accept {verdicts[True, True]}, both refuse {verdicts[False, False]}, "
            f"only the API server accepts {verdicts[True, False]}, only bayplan accepts {verdicts[False, True]}; "
            f"admission plugins refused {self.not_asked} more); of those that both refuse "
            "bayplan names the API server's "
            f"field for {self.fields['same'] / max(self.fields.total(), 1):.1%}, one below it for "
            f"{self.fields['closer'] / max(self.fields.total(), 1):.1%}"
        )


# Fields of older versions that the newest one does not have: a part of a status, which nothing reads strictly.
GONE = {("NodeAllocatableResourceClaimStatus", "resources", "{}quantity")}


def test_the_table_has_every_field_that_the_api_server_serves(control_plane: ControlPlane) -> None:
    """The table is that of the newest version; older ones have nothing that it lacks."""
    served = served_table(control_plane.api)
    known = field_table()
    if known.kubernetes == served["kubernetes"]:
        assert known.types == served["types"]
    fields = {(name, field, kind) for name, of_type in served["types"].items() for field, kind in of_type.items()}
    known_fields = {(name, field, kind) for name, of_type in known.types.items() for field, kind in of_type.items()}
    assert fields - known_fields <= GONE


def test_random_pods_get_the_verdict_of_the_api_server(
    control_plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    control_plane.apply(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": RUNTIME_CLASS},
            "handler": RUNTIME_CLASS,
        }
    )
    first = request.config.getoption("--first-seed")
    tally = Tally()
    for seed, text, made, (status, answer) in answers(control_plane, first, request.config.getoption("--cases")):
        if status == http.HTTPStatus.FORBIDDEN:
            tally.not_asked += 1
            continue
        theirs = status == http.HTTPStatus.CREATED
        faults = faults_of(text, tmp_path)
        tally.verdicts[theirs, not faults] += 1
        if theirs != (not faults):
            tally.different.append(f"seed {seed}: {made}\n  {answer.get('message', 'accepted')}\n  {faults}\n  {text}")
        elif faults:
            named = fields_named_by(answer)
            if named:  # a malformed quantity is refused without naming its field
                tally.fields[agreement(named, [normal(each.at.field) for each in faults])] += 1
    with capsys.disabled():
        print(f"\n{tally}")  # noqa: T201 - the figure is what this test is for
    assert tally.same >= SAME_VERDICT, "\n".join([str(tally), *tally.different[:20]])
    assert tally.same_field >= SAME_FIELD, str(tally)
    assert min(tally.verdicts[True, True], tally.verdicts[False, False]) > 0.3 * tally.verdicts.total()


def answers(plane: ControlPlane, first: int, cases: int) -> Iterator[tuple[int, str, str, tuple[int, dict[str, Any]]]]:
    """For each case its seed, its text, how it was made, and what the API server says to it."""
    address = urlsplit(plane.api.server).netloc
    with closing(http.client.HTTPSConnection(address, context=plane.api._tls, timeout=30)) as connection:
        for seed in range(first, first + cases):
            text, made = random_pod(Random(seed))
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/api/v1/namespaces/default/pods?{QUERY}", text.encode(), headers)
            response = connection.getresponse()
            yield seed, text, made, (response.status, json.loads(response.read()))


def faults_of(text: str, folder: Path) -> list[InvalidObject]:
    """What `place -f` says about a document."""
    file = folder / "pod.json"
    file.write_text(text)
    try:
        if not read_all([file]).pods:
            return [InvalidObject(ObjectPath("-f", "apiVersion"), "holds no pod")]
    except InvalidObjects as error:
        return list(error.faults)
    except InvalidObject as error:
        return [error]
    return []


def fields_named_by(status: dict[str, Any]) -> list[str]:
    """The fields that a refusal names: causes of validation, or quoted names of strict decoding."""
    causes = (status.get("details") or {}).get("causes") or ()
    if causes:
        return [normal(cause.get("field", "")) for cause in causes]
    message = status.get("message", "")
    strict = re.findall(r'(?:unknown|duplicate) field "([^"]*)"', message)
    into = re.findall(r"Go struct field \w+\.([\w.]+) of type", message)
    return [normal(re.sub(r"\.(VolumeSource|ProbeHandler)\b", "", each)) for each in (*strict, *into)]


def normal(field_path: str) -> str:
    """A path without quotes and dots before keys, in which both sides write them differently."""
    return re.sub(r"\[\"?([^\]\"]*)\"?\]", r".\1", field_path)


def agreement(theirs: list[str], ours: list[str]) -> str:
    if any(each in ours for each in theirs):
        return "same"
    without = [re.sub(r"\.\d+", "", each) for each in ours]  # Go's decoder names no index
    if any(each in without for each in theirs):
        return "same"
    return "closer" if any(mine.startswith(f"{each}.") for each in theirs for mine in ours) else "another"
