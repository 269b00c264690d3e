"""Ask a peer: a JSON object goes in, a JSON object comes out, as often as one likes.

A peer that answers nothing for too long is in an endless loop, which some are known for: it is ended, and the next
question goes to a new process. What it prints besides goes to its log.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from typing import Any, Self

from tests.kubernetes.control_plane.process import DIE_WITH_PARENT, LAUNCHER
from tests.peers.catalogue import NoPeer, Peer

Json = dict[str, Any]
SECONDS = 60.0
"""The longest that a peer may take for an answer: a kubelet with eight zones and four resources takes seconds."""
HANG = "hang"
QUESTIONS = 2000
"""How many questions a process answers: a kubelet leaves a goroutine and its node behind with each."""


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
        self._asked += 1
        if self._asked > QUESTIONS:
            self.close()
        running = self._running or self._start()
        assert running.stdin is not None
        running.stdin.write(json.dumps({**question, "op": op}, separators=(",", ":")).encode() + b"\n")
        running.stdin.flush()
        line = self._line(running)
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
        return self._running

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self.peer.program.parent / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", DIE_WITH_PARENT, self.peer.program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
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
