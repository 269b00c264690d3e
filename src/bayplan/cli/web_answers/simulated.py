"""A simulation as the page shows it while it runs: schedulers side by side over time, and the cluster of the last one.

A thread lets all schedulers happen in step and publishes the state twice a second; requests read the frames that there
are. With `pace`, simulated time passes that fast.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from threading import Event
from time import monotonic

import click

from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.web_answers.answers import ClusterAnswers, quiet
from bayplan.cli.web_answers.scene import Scene
from bayplan.cluster.state import ClusterState
from bayplan.explain.documents import API_VERSION, Document
from bayplan.kube.object_set import ObjectSet
from bayplan.services.web.answers import Question, Standing, Unanswerable
from bayplan.services.web.board import Board
from bayplan.simulate.recording import Frame, Recording
from bayplan.simulate.results.comparison import Comparison, answer
from bayplan.simulate.scenario.model import Scenario
from bayplan.simulate.tally import MOMENTS

SIMULATION = "simulation"
SECONDS_BETWEEN_STATES = 0.5
# Showing a state may take this share of the time at most.
SHARE_FOR_SHOWING = 0.2


class SimulationAnswers(ClusterAnswers):
    """The cluster of the last scheduler now, and all schedulers over time."""

    def __init__(self, context: click.Context, scene: Scene, recordings: Sequence[Recording]) -> None:
        super().__init__(context, scene, clock=recordings[-1].simulation.now)
        self._recordings = recordings
        # Frames that this state has; later ones come with the next.
        self._frames = [len(each.frames) for each in recordings]
        self._over = all(each.over for each in recordings)
        self._answer = answer(comparison_of(recordings)) if self._over else None
        self._documents |= {
            "simulation": self._simulation,
            "simulation-frame": self._frame,
            "simulation-refusals": self._refusals,
        }

    @property
    def standing(self) -> Standing:
        """Whether it goes on."""
        return Standing.FINISHED if self._over else Standing.RUNNING

    def _simulation(self, _: Question) -> Document:
        scenario = self._recordings[0].scenario
        runs = [
            {
                "scheduler": each.scheduler,
                "over": self._over,
                "wanted": scenario.pods_wanted,
                "frames": frames,
                **_series(each.frames[:frames]),
            }
            for each, frames in zip(self._recordings, self._frames, strict=True)
        ]
        return {
            "apiVersion": API_VERSION,
            "kind": "Simulation",
            "scenario": scenario.name,
            "lasts": scenario.lasts,
            "moments": MOMENTS + 1,
            "over": self._over,
            "answer": self._answer,
            "resources": self._recordings[0].resources,
            "nodes": [node.name for node in scenario.nodes],
            "runs": runs,
        }

    def _frame(self, question: Question) -> Document:
        text = question.get("frame")
        if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < max(self._frames)):
            raise Unanswerable(HTTPStatus.NOT_FOUND, f"no frame {text!r}; there are {max(self._frames)} so far")
        number = int(text)
        runs = []
        for each, frames in zip(self._recordings, self._frames, strict=True):
            frame = each.frames[min(number, frames - 1)]
            used = {name: list(column) for name, column in frame.used.items()}
            runs.append({"scheduler": each.scheduler, "used": used, "refused": dict(frame.refused)})
        at = self._recordings[0].scenario.lasts * number / MOMENTS
        return {"apiVersion": API_VERSION, "kind": "SimulationFrame", "frame": number, "at": round(at, 3), "runs": runs}

    def _refusals(self, question: Question) -> Document:
        wanted = question.get("scheduler")
        names = [each.scheduler for each in self._recordings]
        if wanted and wanted not in names:
            raise Unanswerable(HTTPStatus.NOT_FOUND, f"no scheduler {wanted!r}; known: {', '.join(names)}")
        items = [
            {
                "scheduler": each.scheduler,
                "at": round(refusal.at, 3),
                "pod": refusal.pod,
                "node": refusal.node,
                "reason": refusal.reason,
                "message": refusal.message,
            }
            for each in self._recordings
            if wanted in ("", each.scheduler)
            for refusal in each.refusals
        ]
        return {"apiVersion": API_VERSION, "kind": "SimulationRefusals", "items": items}


def _series(frames: Sequence[Frame]) -> Document:
    """The time line as columns; shares in percent."""
    moments = [each.moment for each in frames]
    return {
        "at": [each.at for each in moments],
        "running": [each.running for each in moments],
        "waiting": [each.waiting for each in moments],
        "finished": [each.finished for each in moments],
        "refused": [each.refused for each in moments],
        "cpu": [round(100 * each.cpu_share, 1) for each in moments],
        "memory": [round(100 * each.memory_share, 1) for each in moments],
        "fragmentation": [
            None if each.fragmentation is None else round(100 * each.fragmentation, 1) for each in frames
        ],
    }


def comparison_of(recordings: Sequence[Recording]) -> Comparison:
    """The runs so far side by side."""
    return Comparison(recordings[0].scenario, tuple(each.result() for each in recordings))


class Showing:
    """Lets a simulation happen in a thread and publishes it; `finished` gets the comparison once."""

    def __init__(
        self,
        scenario: Scenario,
        schedulers: Sequence[str],
        pace: float | None,
        finished: Callable[[Comparison], None],
    ) -> None:
        self.recordings = [Recording(scenario, name) for name in schedulers]
        self._context = click.get_current_context()
        self._pace = pace
        self._finished = finished
        self._stop = Event()

    async def follow(self, board: Board) -> None:
        """Run to the end, then stay."""
        loop = asyncio.get_running_loop()

        def publish(answers: SimulationAnswers) -> None:
            asyncio.run_coroutine_threadsafe(board.publish(answers), loop).result()

        try:
            await asyncio.to_thread(self._run, publish)
            await asyncio.Event().wait()
        finally:
            self._stop.set()

    def _run(self, publish: Callable[[SimulationAnswers], None]) -> None:
        began = shown = monotonic()
        pause = 0.0
        while not self._stop.is_set() and not all(each.over for each in self.recordings):
            behind = min(self.recordings, key=lambda each: (each.over, len(each.frames)))
            self._next_frame(behind)
            if self._pace is not None:
                due = began + behind.scenario.lasts * len(behind.frames) / MOMENTS / self._pace
                self._stop.wait(max(0.0, due - monotonic()))
            if monotonic() - shown >= pause and all(each.frames for each in self.recordings):
                began_showing = monotonic()
                publish(self._answers())
                shown = monotonic()
                pause = max(SECONDS_BETWEEN_STATES, (shown - began_showing) / SHARE_FOR_SHOWING)
        if not self._stop.is_set():
            publish(self._answers())
            with self._context.scope(cleanup=False):
                self._finished(comparison_of(self.recordings))

    def _next_frame(self, recording: Recording) -> None:
        frames = len(recording.frames)
        while not self._stop.is_set() and len(recording.frames) == frames and recording.step():
            pass

    def _answers(self) -> SimulationAnswers:
        """The state of now. The simulation waits meanwhile."""
        judged = self.recordings[-1]
        profile = judged.simulation.view().scheduler.profile

        def opened(objects: ObjectSet, *, owners: bool, state: ClusterState | None = None) -> ClusterSession:
            return ClusterSession(objects, None, {profile.name: profile}, SIMULATION, owners=owners, state=state)

        with quiet(self._context):
            return SimulationAnswers(self._context, Scene(judged.objects(), opened), self.recordings)
