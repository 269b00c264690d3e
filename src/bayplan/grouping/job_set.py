"""The progress of a JobSet's Jobs: no pod waits for finished pods.

A JobSet has the number of its pods; each of its Jobs knows how many are still to come. So the Jobs are looked up
(`grouping.py`): a finished driver keeps no worker waiting.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bayplan.grouping.grouping import Answers, Lookup, every
from bayplan.grouping.raw import RawObject, Reference, labels_of, list_at, metadata_of
from bayplan.grouping.rules import Rules, rule_for
from bayplan.grouping.workload import OwningWorkload, RoleSpec, described

KIND = ("jobset.x-k8s.io", "JobSet")
JOB = Reference("batch/v1", "Job")
NAME = "jobset.sigs.k8s.io/jobset-name"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
_FINISHED = ("Complete", "Failed")


def without_ended(workload: OwningWorkload, rules: Rules, answers: Answers) -> OwningWorkload:
    """A JobSet that waits only for pods still to come; any other workload is unchanged."""
    about = workload.about
    if (about.group, about.kind) != KIND:
        return workload
    question = Lookup(JOB.api_version, JOB.kind, about.namespace, labels=((NAME, about.name),))
    ended: Counter[str] = Counter()
    for job in every(answers, question):
        # Jobs of an earlier JobSet of the same name do not count.
        if any(owner.get("uid") == about.uid for owner in metadata_of(job).get("ownerReferences") or ()):
            ended[labels_of(job).get(ROLE, "").lower()] += _ended(job, rules)
    return replace(workload, parts=tuple(_left(part, ended[part.value]) for part in workload.parts))


def _ended(job: RawObject, rules: Rules) -> int:
    """The number of a Job's pods that have ended and are not replaced."""
    rule = rule_for(rules, JOB)
    parts = described(job, rule).parts if rule is not None else ()
    conditions = list_at(job, ("status", "conditions"))
    finished = any(each.get("type") in _FINISHED and each.get("status") == "True" for each in conditions)
    return sum(part.size if finished else part.size - part.coming for part in parts)


def _left(part: RoleSpec, ended: int) -> RoleSpec:
    coming = max(part.coming - ended, 0)
    return replace(part, least=min(part.least, coming), coming=coming)
