"""When which pod is looked at."""

from __future__ import annotations

from bayplan.services.pod_grouper.grouper import ExamineQueue


def due(looks: ExamineQueue, now: float) -> list[str]:
    found = []
    while (key := looks.pop(now)) is not None:
        found.append(key)
    return found


def test_pods_are_examined_in_order_of_time() -> None:
    looks = ExamineQueue()
    for key, when in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        looks.put(key, when)
    assert looks.next_time() == 1.0
    assert (due(looks, 2.0), due(looks, 2.5), due(looks, 9.0)) == (["a", "b"], [], ["c"])
    assert (looks.next_time(), len(looks)) == (None, 0)


def test_a_pod_is_examined_once_at_its_earliest_time() -> None:
    looks = ExamineQueue()
    for when in (5.0, 2.0, 8.0):
        looks.put("a", when)
    assert (len(looks), due(looks, 2.0), due(looks, 9.0)) == (1, ["a"], [])


def test_trouble_makes_looks_rarer_until_one_ends_well() -> None:
    looks, now, waits = ExamineQueue(), 0.0, []
    for _ in range(9):
        looks.put_back("a", now)
        moment = looks.next_time()
        assert moment is not None
        waits.append(moment - now)
        now = moment
        due(looks, now)
    assert [round(wait, 1) for wait in waits] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    looks.done("a")
    assert looks.put_back("a", 0.0) == 1


def test_a_pod_that_is_gone_is_not_looked_at() -> None:
    looks = ExamineQueue()
    looks.put("a", 1.0)
    looks.drop("a")
    assert (looks.next_time(), due(looks, 9.0)) == (None, [])
