"""The books: what binding, promising and leaving do to a node, and that everything can be taken back."""

from copy import deepcopy

from bayplan.compat.kai.scheduler.books import Books, after_a_round
from bayplan.compat.kai.scheduler.model import GPU, Status
from tests.unit.compat.kai.scheduler.small_clusters import cluster, job

RUNNING = job("old", None, 2, on="n0")
WAITING = job("new", None, 3)


def gpus(books: Books) -> dict[str, tuple[float, float]]:
    return {node: (books.idle[node][GPU], books.releasing[node].get(GPU, 0)) for node in books.idle}


def test_binding_takes_what_is_idle() -> None:
    books = Books(cluster("z/r: 4 4", WAITING))
    books.bind(WAITING.tasks[0], "n1")
    assert gpus(books) == {"n0": (4, 0), "n1": (1, 0)}


def test_a_promise_takes_what_is_being_released() -> None:
    books = Books(cluster("z/r: 2 4", RUNNING, WAITING))
    books.evict(RUNNING.tasks[0])
    assert gpus(books) == {"n0": (2, 2), "n1": (4, 0)}
    books.pipeline(WAITING.tasks[0], "n0")
    assert gpus(books) == {"n0": (2, -1), "n1": (4, 0)}
    assert books.free_amount("n0", GPU) == 1


def test_who_leaves_one_node_for_another_frees_the_first() -> None:
    books = Books(cluster("z/r: 2 4", RUNNING))
    books.evict(RUNNING.tasks[0])
    books.pipeline(RUNNING.tasks[0], "n1")
    assert gpus(books) == {"n0": (2, 2), "n1": (4, -2)}


def test_who_is_to_leave_and_comes_back_to_the_same_node_never_left() -> None:
    books = Books(cluster("z/r: 2 4", RUNNING))
    books.evict(RUNNING.tasks[0])
    books.pipeline(RUNNING.tasks[0], "n0")
    assert books.status(RUNNING.tasks[0]) is Status.RUNNING
    assert gpus(books) == {"n0": (2, 0), "n1": (4, 0)}


def test_everything_can_be_taken_back() -> None:
    books = Books(cluster("z/r: 2 4", RUNNING, WAITING))
    books.bind(WAITING.tasks[0], "n1")
    mark = books.checkpoint()
    before = deepcopy((books.places, gpus(books)))
    books.evict(RUNNING.tasks[0])
    books.pipeline(RUNNING.tasks[0], "n1")
    books.pipeline(WAITING.tasks[0], "n0")
    books.rollback(mark)
    assert (books.places, gpus(books)) == before


def test_the_next_round_finds_bound_pods_running_and_moved_ones_waiting() -> None:
    now = cluster("z/r: 2 4", RUNNING, WAITING)
    books = Books(now)
    books.evict(RUNNING.tasks[0])
    books.pipeline(RUNNING.tasks[0], "n1")
    books.bind(WAITING.tasks[0], "n1")
    then = after_a_round(now, books)
    assert [(task.status, task.node) for each in then.jobs for task in each.tasks] == [
        (Status.PENDING, ""),
        (Status.RUNNING, "n1"),
    ]
    assert [node.idle[GPU] for node in then.nodes] == [4, 1]
