"""Patience: for how long a gang waits for a better place than the one that it could have now.

There is one clock, for the scheduler and for every command: a gang waits since the youngest of the pods that wait was created. Before that it could not
have started whole, so it has not waited for a place yet. A pod that replaces a lost one is young, and its gang has patience anew; a scheduler that is started again reads the same timestamps.

Patience is for domains that can still be saved. Once members run in more of them than the gang wishes for, or a place is in domains where members run already,
waiting changes nothing.
"""

from __future__ import annotations

from bayplan.gangs.model import Gang
from bayplan.kube.times import moment_of


def waited_for(gang: Gang, now: float, otherwise: float | None) -> float | None:
    """The number of seconds that a gang has waited; both moments are in seconds since 1970.

    If its pods do not say when they were created, it has waited since `otherwise`; None if that is unknown too.
    """
    moments = [moment_of(pod.metadata.creation_timestamp or "") for pod in gang.pods]
    since = max((moment.timestamp() for moment in moments if moment is not None), default=otherwise)
    return None if since is None else max(0.0, now - since)


def patience_left(gang: Gang, domains: int, running_at: int, waited: float) -> float:
    """For how many seconds a gang goes on waiting that could have a place in so many preferred domains, `running_at` of them with members that run."""
    patience = gang.patience
    if patience is None or not running_at <= patience.domains < domains:
        return 0.0
    return max(0.0, patience.seconds - waited)
