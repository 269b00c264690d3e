"""One hostile object of a tenant or a node delays other tenants' pods by a moment.

`python -m benchmarks attacks` measures all of them with 1,000 nodes.
"""

from __future__ import annotations

from benchmarks.attacks import MOST_TOGETHER, attacked
from tests.kubernetes.control_plane.plane import ControlPlane

NODES = 50
SOME = (
    "managed fields nested 1,500 deep",
    "a PodGroup with a pod nested 1,500 deep",
    "NotIn with 80,000 values",
    "8,000 resource names",
    "3,000 containers",
    "a gang of 500 unlike pods",
    "a report of 8,000 names",
    "a node with 10,000 names",
)


def test_one_hostile_object_delays_others_by_a_moment_only() -> None:
    """The limit is that of ten such objects at once: tests run on machines that do other things as well."""
    with ControlPlane() as plane:
        delays = {name: figures.alone for name, figures in attacked(plane, NODES, SOME)}
    assert {name: seconds for name, seconds in delays.items() if seconds > MOST_TOGETHER} == {}
