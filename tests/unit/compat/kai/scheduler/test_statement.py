"""The statement: what binding, promising and leaving do to a node, and that everything can be taken back."""

from copy import deepcopy

from bayplan.compat.kai.scheduler.model import GPU, Status
from bayplan.compat.kai.scheduler.rounds import next_cluster
from bayplan.compat.kai.scheduler.statement import Statement
from tests.unit.compat.kai.scheduler.small_clusters import cluster, job

RUNNING = job("old", None, 2, on="n0")
WAITING = job("new", None, 3)


def gpus(statement: Statement) -> dict[str, tuple[float, float]]:
    return {node: (statement.idle[node][GPU], statement.releasing[node].get(GPU, 0)) for node in statement.idle}


def test_binding_takes_what_is_idle() -> None:
    statement = Statement(cluster("z/r: 4 4", WAITING))
    statement.bind(WAITING.tasks[0], "n1")
    assert gpus(statement) == {"n0": (4, 0), "n1": (1, 0)}


def test_a_promise_takes_what_is_being_released() -> None:
    statement = Statement(cluster("z/r: 2 4", RUNNING, WAITING))
    statement.evict(RUNNING.tasks[0])
    assert gpus(statement) == {"n0": (2, 2), "n1": (4, 0)}
    statement.pipeline(WAITING.tasks[0], "n0")
    assert gpus(statement) == {"n0": (2, -1), "n1": (4, 0)}
    assert statement.free_amount("n0", GPU) == 1


def test_who_leaves_one_node_for_another_frees_the_first() -> None:
    statement = Statement(cluster("z/r: 2 4", RUNNING))
    statement.evict(RUNNING.tasks[0])
    statement.pipeline(RUNNING.tasks[0], "n1")
    assert gpus(statement) == {"n0": (2, 2), "n1": (4, -2)}


def test_who_is_to_leave_and_comes_back_to_the_same_node_never_left() -> None:
    statement = Statement(cluster("z/r: 2 4", RUNNING))
    statement.evict(RUNNING.tasks[0])
    statement.pipeline(RUNNING.tasks[0], "n0")
    assert statement.status(RUNNING.tasks[0]) is Status.RUNNING
    assert gpus(statement) == {"n0": (2, 0), "n1": (4, 0)}


def test_everything_can_be_taken_back() -> None:
    statement = Statement(cluster("z/r: 2 4", RUNNING, WAITING))
    statement.bind(WAITING.tasks[0], "n1")
    mark = statement.checkpoint()
    before = deepcopy((statement.places, gpus(statement)))
    statement.evict(RUNNING.tasks[0])
    statement.pipeline(RUNNING.tasks[0], "n1")
    statement.pipeline(WAITING.tasks[0], "n0")
    statement.rollback(mark)
    assert (statement.places, gpus(statement)) == before


def test_the_next_round_finds_bound_pods_running_and_moved_ones_waiting() -> None:
    now = cluster("z/r: 2 4", RUNNING, WAITING)
    statement = Statement(now)
    statement.evict(RUNNING.tasks[0])
    statement.pipeline(RUNNING.tasks[0], "n1")
    statement.bind(WAITING.tasks[0], "n1")
    then = next_cluster(now, statement)
    assert [(task.status, task.node) for each in then.jobs for task in each.tasks] == [
        (Status.PENDING, ""),
        (Status.RUNNING, "n1"),
    ]
    assert [node.idle[GPU] for node in then.nodes] == [4, 1]
