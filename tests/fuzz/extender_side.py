"""The extender's side: spoiled requests over HTTP.

Every one is answered, none with a server error, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

from bayplan.services.extender.service import ExtenderSettings
from tests.builders.extenders import Extender, asking, asking_with_objects, binding, running_extender
from tests.builders.objects import simple_pod, topology, zone
from tests.fuzz.failures import Disagreement, Findings
from tests.fuzz.mutating import mutated

RECORDED = Path(__file__).parents[1] / "unit/services/extender/recorded"
VERBS = ("filter", "prioritize", "preempt", "bind")
ALLOWED = {200, 400, 404, 405, 413}
REQUESTS = 40
NODES = 3


def one_extender(random: Random, findings: Findings) -> None:
    """An extender that meets some spoiled requests and then answers an honest one as ever."""
    findings.objects += REQUESTS
    with findings.step("extender"):
        asyncio.run(_story(random))


async def _story(random: Random) -> None:
    reports = [
        topology(*(zone(at, {"cpu": 8, "memory": "32Gi"}) for at in range(2)), name=f"n{number}")
        for number in range(NODES)
    ]
    settings = ExtenderSettings(timeout=1.0, wait_for_bind=0.001)
    async with running_extender(*reports, settings=settings) as extender:
        for _ in range(REQUESTS):
            await _ask(random, extender)
        pod = simple_pod({"cpu": 4, "memory": "1Gi"}, "honest")
        answer = await extender.ask("filter", asking(pod, "n0"))
        if set(answer) != {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}:
            raise Disagreement(f"an honest request is answered {answer}")


async def _ask(random: Random, extender: Extender) -> None:
    verb = random.choice((*VERBS, *VERBS, "other"))
    body = _spoiled(random)
    status, text = await extender.post(verb, body)
    if status not in ALLOWED:
        raise Disagreement(f"{verb} is answered {status} {text!r} to {body[:2000]!r}")
    if status != 200 and text.count("\n") != 1:
        raise Disagreement(f"{verb} is refused in {text.count(chr(10))} lines: {text!r}")


def _spoiled(random: Random) -> bytes:
    document: Any = mutated(random, _honest(random), random.randint(0, 6))
    body = json.dumps(document, separators=random.choice(((",", ":"), (", ", ": ")))).encode()
    if random.random() < 0.1:
        start = random.randrange(len(body) + 1)
        body = body[:start] + random.randbytes(random.randint(0, 8)) + body[start + random.randint(0, 8) :]
    return body


def _honest(random: Random) -> Any:
    names = [f"n{number}" for number in range(NODES + random.randrange(2))]
    pod = simple_pod({"cpu": random.choice((1, 4, 9)), "memory": "1Gi"}, f"p{random.randrange(6)}", priority=10)
    match random.randrange(4):
        case 0:
            return asking(pod, *names)
        case 1:
            return asking_with_objects(pod, *({"metadata": {"name": name}} for name in names))
        case 2:
            return binding(pod, random.choice(names))
        case _:
            return json.loads(random.choice(sorted(RECORDED.glob("*.json"))).read_text())
