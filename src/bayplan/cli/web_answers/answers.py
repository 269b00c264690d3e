"""The answers of `bayplan web`: the documents that the commands print with `-o json`, from one state of the cluster.

Questions that only look share the scene's session. Those that decide (`why`, the queue, what-if) assume pods while they
think, so each gets a session of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from bayplan.cli.options.what_if import ask
from bayplan.cli.program import is_bad_input
from bayplan.cli.shared.asked_workload import ELSEWHERE
from bayplan.cli.shared.explaining import explained
from bayplan.cli.shared.output import QUIET, WARNINGS, with_told
from bayplan.cli.shared.placing import by_workload, place_gangs, place_in_turn, placed_document, read_work
from bayplan.cli.shared.preempting import preemption_for_refused
from bayplan.cli.shared.shapes import one_unit, slots_for
from bayplan.cli.shared.waiting import findings
from bayplan.cli.web_answers.listing import gang_list, gang_members, search
from bayplan.cli.web_answers.map import (
    cluster_document,
    cluster_map,
    room_of_gang,
    room_of_pods,
    rows_inside,
    tree_asked_for,
    tree_shown,
)
from bayplan.cli.web_answers.node import node_document
from bayplan.cli.web_answers.scene import Scene
from bayplan.explain.documents import Document
from bayplan.explain.overview.causes import overview_document, overview_of
from bayplan.explain.overview.nodes import node_list, nodes_document
from bayplan.explain.topology.map import default_resources, topology_document, topology_map
from bayplan.kube.documents import LARGEST_FILE
from bayplan.kube.manifest_limits import pods_limited
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.services.web.answers import Names, Question, Standing, Unanswerable
from bayplan.services.web.limits import LARGEST_MANIFEST
from bayplan.workloads.kinds import kinds_named

RANKED = 5
MOST_VICTIM_SEARCHES = 3
# Of a what-if: each pod is decided and explained.
MOST_PODS = 2_000
NO_FLAGS = "; raise the limit with --max-file-size"
# What the path of a manifest in memory begins with; users know it as their manifest.
IN_MEMORY = "/proc/self/fd/"
# Flags that are parameters of a question here, by the names that those have in the API.
ASSUMED = {
    "withoutNode": "without-node",
    "addNodes": "add-nodes",
    "like": "like",
    "withoutTaint": "without-taint",
    "uncordon": "uncordon",
}
PARAMETERS = {each: each for each in ("requests", "tolerate", "preempt")} | {
    flag: name for name, flag in ASSUMED.items()
}
FLAGS = re.compile(rf"(?<![\w-])--({'|'.join(PARAMETERS)})\b")
EXPLAINED = frozenset(ELSEWHERE) - {"node", "nodes", "no"}


@contextmanager
def quiet(of_command: click.Context) -> Iterator[list[str]]:
    """The options of a command, in any thread; warnings are kept instead of printed."""
    context = click.Context(of_command.command, parent=None, info_name=of_command.info_name)
    context.meta.update(of_command.meta)
    warnings: list[str] = []
    context.meta.update({QUIET: True, WARNINGS: warnings})
    with context.scope(cleanup=False):
        yield warnings


class ClusterAnswers:
    """One state of a cluster. `context` has the options of the command.

    `clock` is what a simulation's clock shows, in seconds; None: the present, or the moment of a dump.
    """

    def __init__(self, context: click.Context, scene: Scene, clock: float | None = None) -> None:
        self._context = context
        self._scene = scene
        self._session = scene.session
        self._taken_at = self._session.now.timestamp() if clock is None else clock
        looking: dict[str, Callable[[Question], Document]] = {
            "cluster": lambda question: cluster_document(scene, self._taken_at, question.visible),
            "map": self._map,
            "nodes": self._nodes,
            "node": self._node,
            "topology": self._topology,
            "gangs": lambda _: gang_list(self._session, scene.catalogue, self._now),
            "gang": self._gang,
            "search": lambda question: search(self._session, scene.catalogue, question.get("q")),
        }
        self._documents = {kind: self._looked(answer) for kind, answer in looking.items()}
        self._documents |= {"waiting": self._waiting, "why": self._why, "what-if": self._what_if}

    @property
    def source(self) -> str:
        """What is shown."""
        return self._session.source

    @property
    def standing(self) -> Standing:
        """How current it is."""
        return Standing.LIVE if self._session.runs else Standing.DUMP

    @property
    def names(self) -> Names:
        """The names of pods, gangs and workloads, by which namespaces have them."""
        return self._scene.catalogue.names

    def _looked(self, answer: Callable[[Question], Document]) -> Callable[[Question], Document]:
        """The same while the cluster stays as it is."""

        def looked(question: Question) -> Document:
            with self._scene.lock:
                return answer(question)

        return looked

    def answer(self, question: Question) -> Document:
        """The document, with the warnings that were given on the way."""
        if question.kind not in self._documents:
            raise Unanswerable(
                HTTPStatus.NOT_FOUND, "nothing is simulated here: bayplan simulate SCENARIO --serve does"
            )
        with quiet(self._context) as warnings:
            try:
                document = with_told(self._documents[question.kind](question))
            except click.ClickException as error:
                raise Unanswerable(_status(error), _as_asked(error.format_message())) from None
            except Exception as error:
                if not is_bad_input(error):
                    raise
                raise Unanswerable(HTTPStatus.BAD_REQUEST, _as_asked(str(error))) from None
        return {**document, "warnings": [_as_asked(each) for each in warnings]} if warnings else document

    @property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._taken_at, UTC)

    # -- questions that look -------------------------------------------------------------------------------------------

    def _map(self, question: Question) -> Document:
        tree = tree_shown(self._session, question.get("topology"))
        columns = cluster_map(
            self._scene, tree, question.get("requests"), question.get("tolerate"), question.get("since")
        )
        return {**columns, "clock": None if self._session.runs else self._taken_at}

    def _nodes(self, question: Question) -> Document:
        return self._summaries(rows_inside(self._session, question.get("topology"), question.get("in")))

    def _summaries(self, rows: NDArray[np.intp]) -> Document:
        state = self._session.state
        shown = default_resources(state, rows)
        return nodes_document(node_list(state, rows, shown, self._session.objects.pods, self._taken_at))

    def _node(self, question: Question) -> Document:
        row = self._session.row_of(question.get("node"))
        summary = self._summaries(np.array([row], dtype=np.intp))["items"][0]
        return node_document(self._session, row, summary)

    def _gang(self, question: Question) -> Document:
        name = f"{question.get('namespace')}/{question.get('name')}"
        document = gang_members(self._session, self._scene.catalogue, name)
        if document is None:
            raise Unanswerable(HTTPStatus.NOT_FOUND, f"there is no gang {name!r} in the {self.source}")
        return document

    def _topology(self, question: Question) -> Document:
        session = self._session
        tree = tree_asked_for(session, question.get("topology"))
        shown = default_resources(session.state, tree.rows)
        pod = one_unit(session, shown)
        if pod is None:
            return topology_document(topology_map(session.state, tree, shown))
        pod_class, _, _, slots = slots_for(session, tree, pod)
        return topology_document(topology_map(session.state, tree, shown, pod_class, slots, named=False))

    # -- questions that decide -----------------------------------------------------------------------------------------

    def _waiting(self, question: Question) -> Document:
        session, namespace = self._scene.deciding(), question.get("namespace")

        def in_view(pod: Pod) -> bool:
            return not namespace or (pod.metadata.namespace or "default") == namespace

        return overview_document(overview_of(findings(session, in_view, self._now), namespace))

    def _why(self, question: Question) -> Document:
        session = self._scene.deciding()
        kind, namespace = question.get("kind"), question.get("namespace")
        # With its namespace: `telco/upf` alone would be the pod of another namespace, whatever the viewer may read.
        name, preempt = f"{kind}/{namespace}/{question.get('name')}", question.get("preempt") == "true"
        try:
            found = explained(session, name, namespace, self._now, node=None, preempt=preempt)
            return {**found.document(), "rooms": [room_of_gang(session, gang) for gang in found.gangs]}
        except click.ClickException:
            if kind.lower() in EXPLAINED or kinds_named(kind, session.grouping.rules):
                raise
        text = f"kind {kind!r} is unknown here: name a pod, a podgroup or a workload (deployment, job)"
        raise Unanswerable(HTTPStatus.NOT_FOUND, text)

    def _what_if(self, question: Question) -> Document:
        ask({ASSUMED[name]: text for name, text in question.parameters if text})
        session = self._scene.deciding()
        with _in_memory(question.manifest) as path, _small():
            read = read_work(session, [path], None)
        if len(read.objects.pods) > MOST_PODS:
            text = (
                f"the manifest has {len(read.objects.pods):,} pods, a what-if at most {MOST_PODS:,}; use bayplan place"
            )
            raise Unanswerable(HTTPStatus.BAD_REQUEST, text)
        for pod in read.objects.pods:
            namespace = pod.metadata.namespace or "default"
            if question.visible is not None and namespace not in question.visible:
                text = f"you must not read namespace {namespace!r}"
                raise Unanswerable(HTTPStatus.FORBIDDEN, text, names_are_the_viewers=True)
        answers = ClassAnswers(session.state)
        with _small(len(read.objects.pods)):
            gangs, pods = place_gangs(session, read.objects, None, answers, self._now, None)
        rooms = [*(room_of_gang(session, gang) for gang in gangs), room_of_pods(session, pods)]
        outcomes = place_in_turn(session, pods, RANKED, answers)
        workloads, others = by_workload(read.plans, outcomes)
        plans = preemption_for_refused(session, gangs, pods, outcomes, self._now, MOST_VICTIM_SEARCHES)
        return {**placed_document(gangs, outcomes, workloads, others, plans), "rooms": rooms}


@contextmanager
def _small(pods: int = 0) -> Iterator[None]:
    """A manifest stays small when it is unpacked, and stands for no more pods than a what-if decides.

    So many of them are known already.
    """
    token = LARGEST_FILE.set(LARGEST_MANIFEST)
    try:
        with pods_limited(MOST_PODS, taken=pods, advice="use bayplan place instead"):
            yield
    finally:
        LARGEST_FILE.reset(token)


@contextmanager
def _in_memory(manifest: bytes) -> Iterator[Path]:
    """A file that only this process has: a read-only container has no other place for it."""
    descriptor = os.memfd_create("manifest")
    try:
        os.write(descriptor, manifest)
        yield Path(f"{IN_MEMORY}{descriptor}")
    finally:
        os.close(descriptor)


def _as_asked(text: str) -> str:
    """A sentence about a manifest or a parameter, as the viewer knows them; flags are those of a command."""
    words = text.replace(NO_FLAGS, "").split(IN_MEMORY)
    text = "manifest".join([words[0], *(word.lstrip("0123456789") for word in words[1:])])
    return FLAGS.sub(lambda flag: PARAMETERS[flag[1]], re.sub(r"(?<!\S)-f ", "the manifest ", text))


def _status(error: click.ClickException) -> HTTPStatus:
    return HTTPStatus.BAD_REQUEST if isinstance(error, click.UsageError) else HTTPStatus.NOT_FOUND
