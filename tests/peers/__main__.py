"""Ask a peer and bayplan the same questions, drawn from a seed.

    python -m tests.peers build [PEER ...] [--version V]                  # what `make peers` does
    python -m tests.peers record                                          # what `make record` does
    python -m tests.peers kubelet --version 1.37.1 --seed 7 --cases 20000 # every family of a peer, one line each
    python -m tests.peers kueue --family assignment --seed 7 --first 812 --cases 1

The first difference of a family is shrunk to a small case and printed with both answers. Exit code 0 if there is none.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from itertools import groupby, islice
from pathlib import Path
from random import SystemRandom

from tests.kubernetes.control_plane.go_build import BuildFailed
from tests.peers.asking import Asked, Json
from tests.peers.build import build_missing
from tests.peers.catalogue import NoPeer, Peer, all_peers, find_peer
from tests.peers.families import families_of
from tests.peers.family import Family, Tally, cases_of, crash_of, difference, finding_of, judge_answer
from tests.peers.recording import record_all
from tests.peers.shrinking import shrink

SECONDS_BETWEEN_NEWS = 60.0
KIND = 48


def main() -> int:
    """Build, or compare; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", help="a peer, `build` or `record`")
    parser.add_argument("names", nargs="*", help="with `build`: which peers; all if none is named")
    parser.add_argument("--version", help="the peer's version; its newest if none is given")
    parser.add_argument("--seed", type=int, help="draw the same again; a new one if none is given")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cases", type=int, default=1000, help="how many cases of each family")
    parser.add_argument("--family", action="append", help="only this family; may be repeated")
    parser.add_argument("--optional", action="store_true", help="succeed where peers cannot be had")
    given = parser.parse_args()
    try:
        if given.peer == "record":
            for path in record_all():
                say(f"{path.relative_to(Path.cwd())} {path.stat().st_size // 1024} KiB")
            return 0
        if given.peer == "build":
            named = (peer for peer in all_peers() if not given.names or peer.name in given.names)
            build_missing(peer for peer in named if given.version in (None, peer.version))
            return 0
        peer = find_peer(given.peer, given.version)
        seed = SystemRandom().randrange(2**32) if given.seed is None else given.seed
        return compare(peer, seed, given.first, given.cases, given.family)
    except NoPeer as problem:
        sys.stderr.write(f"peers: {problem}\n")
        return 0 if given.optional else 1
    except BuildFailed as problem:
        sys.stderr.write(f"peers: {problem}\n")
        return 1


def compare(peer: Peer, seed: int, first: int, cases: int, only: list[str] | None) -> int:
    """One line per family; 1 if some case differs."""
    families = [each for each in families_of(peer) if not only or each.name in only]
    if not families:
        raise NoPeer(f"{peer} has no family {only}; there are {', '.join(each.name for each in families_of(peer))}")
    status = 0
    with Asked(peer) as asked:
        for _, together in groupby(families, key=lambda family: family.cases):
            for family, tally in run(list(together), asked, seed, first, cases):
                say(line_of(peer, family, tally))
                for what, times in (tally.documented + tally.crashed).most_common():
                    say(f"  {times} x {what}")
                if tally.differing:
                    status = 1
                    _tell(family, asked, tally)
    return status


def _tell(family: Family, asked: Asked, tally: Tally) -> None:
    numbers = ", ".join(str(case["id"]) for case, _ in tally.differing[:10])
    say(f"  differing: {numbers}")
    for kind, times in Counter(kind_of(problem) for _, problem in tally.differing).most_common(8):
        say(f"  {times} x {kind}")
    show(family, asked, *tally.differing[0])


def run(families: list[Family], asked: Asked, seed: int, first: int, cases: int) -> list[tuple[Family, Tally]]:
    """Judge so many cases, each in the way of every family: they have the same cases."""
    tallies = [(family, Tally(), _fixed(family, asked.peer)) for family in families]
    told = time.monotonic()
    drawn = (case for _, case in islice(cases_of(families[0], asked.peer.version, seed, first), cases))
    with Asked(asked.peer) as again:  # the first one has further questions under way
        for case, answer in asked.ask_all(families[0].op, drawn):
            for family, tally, fixed in tallies:
                judge_answer(family, again, case, answer, tally, fixed)
            if time.monotonic() - told > SECONDS_BETWEEN_NEWS:
                told = time.monotonic()
                for family, tally, _ in tallies:
                    sys.stderr.write(f"{line_of(asked.peer, family, tally)} so far\n")
    return [(family, tally) for family, tally, _ in tallies]


def _fixed(family: Family, peer: Peer) -> Asked | None:
    if family.fixed_in in (None, peer.version):
        return None
    return Asked(find_peer(peer.name, family.fixed_in))


def line_of(peer: Peer, family: Family, tally: Tally) -> str:
    """How many cases agree."""
    line = f"peer {peer}/{family.name}: {tally.cases} cases, {tally.agreed} agree, {len(tally.differing)} differ"
    if tally.documented:
        line += f", {tally.documented.total()} differ as documented"
    if tally.crashed:
        line += f", {tally.crashed.total()} crash the peer"
    if tally.decisions != tally.cases - tally.crashed.total():
        line += f" ({tally.decisions} {family.unit})"
    if family.finding is not None:
        line += f", {tally.refused} refused by bayplan alone"
    return line


def show(family: Family, asked: Asked, case: Json, problem: str) -> None:
    """Shrink a difference and print it with both answers."""
    kind = kind_of(problem)

    def still(smaller: Json) -> bool:
        try:
            smaller |= family.derive(smaller)
            answer = asked.ask(family.op, smaller)
        except (KeyError, IndexError, TypeError, ValueError):
            return False  # it is no case any more
        if crash_of(answer) is not None:
            return False
        found = finding_of(family, {**smaller, **answer}).problem
        if found is None or kind_of(found) != kind:
            return False
        lasting = difference(family, asked, smaller, answer).problem is not None
        return lasting and family.documented({**smaller, **answer}) is None

    small = shrink(case, still)
    answer = asked.ask(family.op, small)
    say(f"  smallest case: {json.dumps(small)}")
    say(f"  {asked.peer}: {json.dumps(answer)}")
    say(f"  bayplan: {finding_of(family, {**small, **answer}).problem}")


def kind_of(problem: str) -> str:
    """What two problems of the same kind have in common: their first words, without names and numbers."""
    return re.sub(r"\d+", "#", problem)[:KIND]


def say(text: str) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
