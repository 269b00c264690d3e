"""What a gang knows about itself: the numbers of its pods."""

from __future__ import annotations

import pytest

from bayplan.gangs.model import Gang, Group
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import member


def pod(name: str, rank: str = "") -> Pod:
    return member(name, annotations={"bayplan.io/rank": rank} if rank else None)


@pytest.mark.parametrize(
    "running, ranks",
    [
        ((), [0, 1, 2]),
        (("0", "1"), [2, 3, 4]),
        (("0", "2", "5"), [1, 3, 4]),  # one of them takes the place of a member that is gone
        (("", "?"), [0, 1, 2]),  # bound by another scheduler
    ],
)
def test_late_members_get_the_numbers_that_are_free(running: tuple[str, ...], ranks: list[int]) -> None:
    leader = Group("leader", pods=(pod("l-0"),), running=tuple(pod(f"r-{rank}", rank) for rank in running))
    gang = Gang("ml/train", Group(groups=(leader, Group("workers", pods=(pod("w-0"), pod("w-1"))))))
    assert gang.ranks == dict(zip(("ml/l-0", "ml/w-0", "ml/w-1"), ranks, strict=True))
