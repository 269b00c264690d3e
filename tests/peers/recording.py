"""Write recordings for tests/conformance from the families' generators, so that a machine without Go replays them:
`make record`.

A recording is a case with the peer's answer in it. Cases that crash the peer are left out; a case on which bayplan
differs on purpose says so (`quirk`). A case on which it differs otherwise stops the recording: it is a defect of
bayplan's, and `python -m tests.peers` makes it small.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.peers.asking import Asked, Json
from tests.peers.catalogue import Peer, all_peers
from tests.peers.families import families_of
from tests.peers.family import Family, cases_of, crash_of, finding_of

RECORDINGS = Path(__file__).parents[1] / "conformance" / "recordings" / "peers"
SEED = 1
NUMBERS = {"node": 300, "pod-level": 100, "merge": 500, "cache": 150}
USUAL_NUMBER = 200


def record_all() -> list[Path]:
    """Record every family of every peer that is built."""
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    return [
        _record(peer, family)
        for peer in all_peers()
        if peer.is_built
        for family in families_of(peer)
        if not family.same_cases_as
    ]


def recorded_name(peer: Peer, family: Family) -> str:
    """The file of a family's recordings, without its ending."""
    return f"{peer}-{family.cases}"


def _record(peer: Peer, family: Family) -> Path:
    lines: list[str] = []
    with Asked(peer) as asked:
        cases = cases_of(family, peer.version, SEED)
        while len(lines) < NUMBERS.get(family.name, USUAL_NUMBER):
            _, case = next(cases)
            complete = _recorded(family, asked, case)
            if complete is not None:
                lines.append(json.dumps(complete, separators=(",", ":"), sort_keys=True))
    path = RECORDINGS / f"{recorded_name(peer, family)}.jsonl.gz"
    # Without a time stamp: the same recordings are the same file.
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
    return path


def _recorded(family: Family, asked: Asked, case: Json) -> Json | None:
    answer = asked.ask(family.op, case)
    if crash_of(answer) is not None:
        return None
    complete = {**case, **answer}
    problem = finding_of(family, complete).problem
    if problem is None:
        return complete
    note = family.documented(complete)
    if note is None and family.fixed_in in (None, asked.peer.version):
        raise AssertionError(f"{asked.peer} {case['id']}: {problem}")
    return {**complete, "quirk": note or f"fixed in {family.fixed_in}"}
