"""Other systems' own code, recorded and live: cases that `tests/peers` draws, replayed from recordings everywhere, and
fresh ones where the peers are built.

`make record` writes the recordings; `make peers` builds the peers. How many fresh cases there are is a matter of
seconds here; `python -m tests.peers` asks for as many as one likes. In CI they are the same each time, so that a red
run can be repeated.
"""

from __future__ import annotations

import os
from itertools import islice
from random import SystemRandom
from typing import TYPE_CHECKING

import pytest

from tests.peers.asking import Asked
from tests.peers.catalogue import Peer, all_peers
from tests.peers.families import families_of
from tests.peers.family import Family, Tally, cases_of, crash_of, judge
from tests.peers.recording import recorded_name

if TYPE_CHECKING:
    from tests.conformance.conftest import Conformance

FRESH = {
    "node": 40,
    "node-as-seen": 30,
    "restart": 20,
    "restart-as-seen": 20,
    "pod-level": 20,
    "pod-level-as-seen": 20,
}
USUAL_FRESH = 250
EVERY = [(peer, family) for peer in all_peers() for family in families_of(peer)]


@pytest.mark.fixture_files("peers/*", chunks=2)
def test_recorded_peers(conformance: Conformance) -> None:
    name = conformance.file.removeprefix("peers/")
    for peer, family in EVERY:
        if not family.same_cases_as and recorded_name(peer, family) == name:
            conformance.check_each(family.problem)


@pytest.mark.parametrize("peer, family", EVERY, ids=[f"{peer}-{family.name}" for peer, family in EVERY])
def test_fresh_cases(peer: Peer, family: Family) -> None:
    if not all(each.is_built for each in _needed(peer, family)):
        pytest.skip("peers are not built: run `make peers`")
    tally, seed = Tally(), 1 if os.environ.get("CI") else SystemRandom().randrange(2**32)
    fixed = next((Asked(each) for each in _needed(peer, family)[1:]), None)
    with Asked(peer) as asked:
        for _, case in islice(cases_of(family, peer.version, seed), FRESH.get(family.name, USUAL_FRESH)):
            judge(family, asked, case, tally, fixed)
    if fixed is not None:
        fixed.close()
    assert [(case["id"], problem) for case, problem in tally.differing] == []


def test_a_kubelet_that_refuses_its_own_checkpoints_is_no_difference() -> None:
    steps = [{"op": "admit", "out": {"admit": True}}, {"op": "restart", "out": {"error": "another machine state"}}]
    assert crash_of({"steps": steps}) == "cannot start again: another machine state"
    assert crash_of({"steps": [{"op": "restart", "out": {"refused": []}}]}) is None


def _needed(peer: Peer, family: Family) -> list[Peer]:
    """The peer, and the version that has fixed what it does otherwise."""
    fixed = [] if family.fixed_in in (None, peer.version) else [Peer(peer.name, str(family.fixed_in))]
    return [peer, *fixed]
