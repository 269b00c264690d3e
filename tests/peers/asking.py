"""Ask a peer: a JSON object goes in, a JSON object comes out, as often as one likes.

Many questions are asked a few at a time, so that the peer works while its answers are judged. A peer that answers
nothing for too long is in an endless loop, which some are known for: it is ended, and the next
question goes to a new process. What it prints besides goes to its log.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Self

from tests.kubernetes.control_plane.process import DIE_WITH_PARENT, LAUNCHER
from tests.peers.catalogue import NoPeer, Peer

Json = dict[str, Any]
SECONDS = 60.0
"""The longest that a peer may take for an answer: a kubelet with eight zones and four resources takes seconds."""
HANG = "hang"
QUESTIONS = 2000
"""How many questions a process answers: a kubelet leaves a goroutine and its node behind with each."""

IN_FLIGHT = 8
"""How many questions wait for an answer at a time."""
PIPE_BYTES = 1 << 20
"""Holds all of them, and their answers: otherwise both sides would wait for each other to read."""


class Asked:
    """A peer's process between `with` and its end."""

    def __init__(self, peer: Peer, *, seconds: float = SECONDS) -> None:
        if not peer.is_built:
            raise NoPeer(f"{peer} is not built: run `make peers`")
        self.peer = peer
        self._seconds = seconds
        self._running: subprocess.Popen[bytes] | None = None
        self._read = b""
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            for pipe in (self._running.stdin, self._running.stdout):
                if pipe is not None:
                    pipe.close()
            self._running = None

    def ask(self, op: str, question: Json) -> Json:
        """The answer; `{"panic": ...}` where the peer's code crashed, `{"hang": true}` where it did not come back."""
        if self._asked >= QUESTIONS:
            self.close()
        self._send(op, question)
        return self._answer()

    def ask_all(self, op: str, questions: Iterable[Json]) -> Iterator[tuple[Json, Json]]:
        """Each question with its answer, in order. Nothing else can be asked meanwhile."""
        waiting: deque[Json] = deque()
        for question in questions:
            if self._asked >= QUESTIONS:
                while waiting:
                    yield self._first(op, waiting)
                self.close()
            elif len(waiting) == IN_FLIGHT:
                yield self._first(op, waiting)
            self._send(op, question)
            waiting.append(question)
        while waiting:
            yield self._first(op, waiting)

    def _first(self, op: str, waiting: deque[Json]) -> tuple[Json, Json]:
        answer = self._answer()
        question = waiting.popleft()
        if HANG in answer:  # the others went to the process that was ended
            for each in waiting:
                self._send(op, each)
        return question, answer

    def _send(self, op: str, question: Json) -> None:
        running = self._running or self._start()
        self._asked += 1
        assert running.stdin is not None
        running.stdin.write(json.dumps({**question, "op": op}, separators=(",", ":")).encode() + b"\n")
        running.stdin.flush()

    def _answer(self) -> Json:
        assert self._running is not None
        line = self._line(self._running)
        if line is None:
            self.close()
            return {HANG: True}
        answer: Json = json.loads(line)
        if "error" in answer and len(answer) == 1:
            raise ValueError(f"{self.peer} cannot answer this: {answer['error']}")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        self._read = b""
        self._asked = 0
        self._running = LAUNCHER.submit(self._spawn).result()
        for pipe in (self._running.stdin, self._running.stdout):
            assert pipe is not None
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return self._running

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self.peer.program.parent / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", DIE_WITH_PARENT, self.peer.program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,  # the session stays, and with it the priority that the run was given
            )

    def _line(self, running: subprocess.Popen[bytes]) -> bytes | None:
        assert running.stdout is not None
        end = time.monotonic() + self._seconds
        read = [self._read]
        while b"\n" not in read[-1]:
            ready, _, _ = select.select([running.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            more = os.read(running.stdout.fileno(), 1 << 20)
            if not more:
                raise ValueError(f"{self.peer} has ended: see {self.peer.program.parent / 'log'}")
            read.append(more)
        line, _, self._read = b"".join(read).partition(b"\n")
        return line
