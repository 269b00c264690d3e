"""Pods that belong together though no workload of a known kind owns them: Spark applications.

Spark's driver is a pod that creates executors, which it owns; all of them carry the application in `spark-app-selector`. The driver must run before it
requests executors, so no pod waits for all of them: they follow each other into the requested domain.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.grouping.raw import RawObject, Reference, labels_of
from bayplan.grouping.rules import ASKED, Rank, Rule
from bayplan.grouping.workload import Workload, described

SPARK_APPLICATION = "spark-app-selector"
SPARK = Rule(kind="Pod", gang=ASKED, replicas=1, rank=[Rank(label="spark-exec-id")])


def spark_application(pod: RawObject) -> str:
    """The Spark application that a pod is part of; empty if it is of none."""
    return labels_of(pod).get(SPARK_APPLICATION, "")


def spark_workload(pod: RawObject, owners: Sequence[RawObject]) -> Workload:
    """The application of a driver or executor: the driver pod describes it, and the driver's owner may ask for more."""
    chain = [pod, *owners]
    driver = max(number for number, thing in enumerate(chain) if number == 0 or Reference.of(thing).kind == "Pod")
    return described(chain[driver], SPARK, tuple(chain[driver + 1 :]))
