"""Feed watch events into the dispatcher: lists, changes and malformed objects of every resource.

A `Listed` is complete: known objects that it lacks are gone, which covers deletions during a gap in the watch.
Objects with invalid content are kept under `problems` until a valid version arrives; others are unaffected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.volcano.queue import VolcanoQueue
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.decoding import Broken, Changes, Listed
from bayplan.kube.client.watch import Absent
from bayplan.kube.errors import InvalidObject
from bayplan.kube.resources import Resource
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.kube.wire.meta_v1 import WireObject
from bayplan.services.scheduler.entries import Entry, entries_of

logger = logging.getLogger(__name__)

News = Listed[Any] | Changes[Any] | Absent


class Intake:
    """Applies watch events, and remembers invalid objects."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        # Sentences about invalid objects, by resource and key.
        self.problems: dict[str, str] = {}
        # Resources that the API server serves only in versions that bayplan cannot read.
        self.unreadable: dict[Resource[Any], tuple[str, ...]] = {}
        self.volcano_queue = VolcanoQueue(dispatcher.profiles)
        self.workloads = KubernetesWorkloads()
        self.entries = entries_of(dispatcher, self.workloads, self.volcano_queue)
        self._by_resource = {entry.resource: entry for entry in self.entries}
        # Resources that were listed or are absent.
        self._listed: set[Resource[Any]] = set()
        # The uid and version of every object.
        self._known: dict[Resource[Any], dict[str, tuple[str, int]]] = {}

    @property
    def ready(self) -> bool:
        """True once every resource is listed or absent."""
        return all(entry.resource in self._listed for entry in self.entries)

    def entry(self, resource: Resource[Any]) -> Entry:
        """How one resource is applied."""
        return self._by_resource[resource]

    def not_listed_yet(self) -> Iterator[str]:
        """Resources without a list so far."""
        return (str(entry.resource) for entry in self.entries if entry.resource not in self._listed)

    def take(self, resource: Resource[Any], news: News, now: float) -> None:
        """Apply news about one resource."""
        for _ in self.take_in_steps(resource, news, lambda: now):
            pass

    def take_in_steps(self, resource: Resource[Any], news: News, clock: Callable[[], float]) -> Iterator[Pod | None]:
        """Apply news object by object. Other work may run before each object; pods are yielded before they apply."""
        entry = self._by_resource[resource]
        if isinstance(news, Changes):
            for change in news.changes:
                yield _pod_in(change.object)
                if change.kind == "DELETED":
                    self._drop(entry, _key(change.object.metadata), clock())
                else:
                    self._put(entry, change.object, clock())
            yield None
            self._note_broken(entry, news.broken, clock())
            return
        self.unreadable.pop(resource, None)
        if isinstance(news, Absent) and news.unreadable:
            self.unreadable[resource] = news.unreadable
        items = news.items if isinstance(news, Listed) else []
        broken = news.broken if isinstance(news, Listed) else []
        here = {_key(item.metadata) for item in items} | {_key(each) for each in broken}
        for key in [key for key in self._known.get(resource, ()) if key not in here]:
            yield None
            self._drop(entry, key, clock())
        # A list is the current state even with lower versions: the cluster may have been restored from a backup.
        self._known[resource] = {key: (uid, 0) for key, (uid, _) in self._known.get(resource, {}).items()}
        for item in items:
            yield _pod_in(item)
            self._put(entry, item, clock())
        yield None
        self._note_broken(entry, broken, clock())
        self._listed.add(resource)

    def _put(self, entry: Entry, thing: WireObject, now: float) -> None:
        metadata = thing.metadata
        key, version = _key(metadata), _version(metadata.resource_version)
        known = self._known.setdefault(entry.resource, {})
        uid, newest = known.get(key, ("", 0))
        if uid == metadata.uid and version < newest:
            return  # a list was faster than the watch
        known[key] = (metadata.uid, version)
        try:
            entry.put(thing, now)
        except InvalidObject as error:
            self._cannot_read(entry, key, str(error), now)
        except Exception as error:
            # A bug triggered by one object must not stop the scheduler for others.
            logger.exception("failed to apply object", extra={"object": f"{entry.resource} {key}"})
            self.problems[f"{entry.resource} {key}"] = f"internal error: {error}"
        else:
            self.problems.pop(f"{entry.resource} {key}", None)

    def _drop(self, entry: Entry, key: str, now: float) -> None:
        self.problems.pop(f"{entry.resource} {key}", None)
        if _succeeds(lambda: entry.drop(key, now), f"{entry.resource} {key}"):
            self._known.get(entry.resource, {}).pop(key, None)

    def _cannot_read(self, entry: Entry, key: str, problem: str, now: float) -> None:
        """Discard the last readable version of an object."""
        self.problems[f"{entry.resource} {key}"] = problem
        unreadable, text = entry.unreadable, problem.removeprefix(f"{entry.resource.kind} {key}: ")
        discard = partial(entry.drop, key, now) if unreadable is None else partial(unreadable, key, text, now)
        _succeeds(discard, f"{entry.resource} {key}")

    def _note_broken(self, entry: Entry, broken: list[Broken], now: float) -> None:
        for each in broken:
            key = _key(each)
            if each.deleted:
                self._drop(entry, key, now)
            else:
                self._cannot_read(entry, key, f"{entry.resource.kind} {key}: {each.problem}", now)
                self._known.setdefault(entry.resource, {})[key] = ("", 0)


def _succeeds(drop: Callable[[], object], about: str) -> bool:
    """Drop an object; False after a bug. It then stays known, so that the next list tries again."""
    try:
        drop()
    except Exception:
        logger.exception("failed to drop object", extra={"object": about})
        return False
    return True


def _pod_in(thing: WireObject) -> Pod | None:
    return thing if isinstance(thing, Pod) else None


def _key(named: Metadata | Broken) -> str:
    return f"{named.namespace}/{named.name}" if named.namespace else named.name


def _version(text: str) -> int:
    """The resource version as a number; 0 if it is none, so that every object counts as newer."""
    return int(text) if text.isdecimal() else 0
