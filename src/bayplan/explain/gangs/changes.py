"""What would let a gang in, in words: `12 pods instead of 16`, `block required instead of rack`.

The remedies of `gangs/remedies.py` come in; one phrase for each goes out, to follow "Would schedule now if".
"""

from __future__ import annotations

from bayplan.explain.amounts import count
from bayplan.explain.changes import opened_phrase
from bayplan.explain.documents import Document
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.topology.levels import in_short
from bayplan.gangs.remedies import (
    FewerPods,
    GangRemedy,
    PreferredLevel,
    PreferredSegments,
    WiderLevel,
    WorkloadGone,
)
from bayplan.gangs.trees import NODE
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.scheduling.remedies import OpenNodes


def gang_changes(outcome: GangOutcome) -> list[str]:
    """One phrase for each remedy, with short names of levels."""
    return [_phrase(remedy, outcome.levels) for remedy in outcome.remedies]


def gang_changes_document(outcome: GangOutcome) -> list[Document]:
    """One entry for each remedy: the sort of change, the sentence, and its values."""
    return [
        {
            "change": _phrase(remedy, outcome.levels),
            "kind": _SORTS[type(remedy)],
            **{_camel(name): _plain(getattr(remedy, name)) for name in remedy.__slots__},
        }
        for remedy in outcome.remedies
    ]


_SORTS: dict[type[GangRemedy], str] = {
    OpenNodes: "nodes",
    FewerPods: "size",
    WiderLevel: "level",
    PreferredLevel: "preferred",
    PreferredSegments: "segments",
    WorkloadGone: "workload",
}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def _phrase(remedy: GangRemedy, levels: tuple[str, ...]) -> str:
    def short(label: str) -> str:
        return NODE if label == HOSTNAME else in_short(label, levels)

    whose = "" if isinstance(remedy, WorkloadGone | OpenNodes) or not remedy.group else f"group {remedy.group}: "
    match remedy:
        case OpenNodes():
            return opened_phrase(remedy, "its pods")
        case FewerPods():
            return f"{whose}{count(remedy.pods, 'pod')} instead of {remedy.instead_of}"
        case WiderLevel():
            return f"{whose}{short(remedy.level)} were required instead of {short(remedy.instead_of)}"
        case PreferredLevel():
            level = short(remedy.level)
            where = "" if remedy.domains is None else f" ({count(remedy.domains, level)})"
            return f"{whose}{level} were preferred instead of required{where}"
        case PreferredSegments():
            return f"{whose}segments of {remedy.size} in one {short(remedy.level)} were preferred instead of required"
        case WorkloadGone():
            pods = f" ({count(remedy.pods, 'pod')})" if remedy.pods > 1 else ""
            return f"{remedy.name}{pods} " + ("moved to other nodes, which have room" if remedy.moves else "ended")
    raise AssertionError(remedy)
