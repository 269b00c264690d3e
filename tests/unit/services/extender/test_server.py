"""The HTTP server: what it refuses and with which status, authentication, metrics, and certificates that change."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bayplan.services.edges.health import AddressError
from bayplan.services.extender.server import serve_extender
from bayplan.services.extender.service import ExtenderSettings
from bayplan.services.extender.tls import ServingFiles, ServingTls, Token, reload_on_change
from tests.builders.extenders import MOST_BYTES, Extender, asking, extender_service, running_extender, wire_pod
from tests.builders.objects import simple_pod, topology, zone
from tests.kubernetes.control_plane.certificates import Authority

REPORT = topology(zone(0, {"cpu": 8, "memory": "32Gi"}))
POD = simple_pod({"cpu": 2, "memory": "1Gi"}, "a")


def during(story: Callable[[Extender], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        async with running_extender(REPORT, **options) as extender:
            return await story(extender)

    return asyncio.run(run())


@pytest.mark.parametrize(
    "verb, body, status, line",
    [
        ("filter", b"{", 400, "the body is not JSON: Input data was truncated"),
        ("filter", b"", 400, "the body is not JSON: Input data was truncated"),
        ("filter", b"\xff\xfe", 400, "the body is not JSON: JSON is malformed: invalid character (byte 0)"),
        ("filter", b'{"Pod":{},"NodeNames":["\xff"]}', 400, None),
        ("filter", b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"\xff"}}]}}', 400, None),
        ("filter", b'{"Pod":{"metadata":{"name":"\xff"}},"NodeNames":["n1"]}', 400, None),
        ("filter", b"[]", 400, "must be a mapping, not a list"),
        ("filter", {"NodeNames": ["n1"]}, 400, "Pod: is missing"),
        ("prioritize", {"Pod": None, "NodeNames": ["n1"]}, 400, "Pod: is missing"),
        ("filter", {"Pod": 7, "NodeNames": ["n1"]}, 400, "Pod: must be a mapping, not a whole number"),
        (
            "filter",
            {"Pod": {"spec": {"containers": 5}}, "NodeNames": ["n1"]},
            400,
            "Pod.spec.containers: must be a list, not a whole number",
        ),
        ("filter", {"Pod": wire_pod(POD)}, 400, "NodeNames: is missing, and so is Nodes"),
        ("filter", {"Pod": wire_pod(POD), "NodeNames": "n1"}, 400, "NodeNames: must be a list, not a string"),
        (
            "filter",
            {"Pod": wire_pod(POD), "Nodes": {"items": [7]}},
            400,
            "Nodes.items[0]: must be a mapping, not a whole number",
        ),
        ("bind", {"PodNamespace": "default", "PodUID": "u", "Node": "n1"}, 400, "PodName: is missing"),
        ("bind", {}, 400, "PodName: is missing"),
        ("preempt", {"NodeNameToMetaVictims": {}}, 400, "Pod: is missing"),
        ("preempt", {"Pod": wire_pod(POD), "NodeNameToMetaVictims": {"n1": 3}}, 400, None),
        ("filter", b" " * (MOST_BYTES + 1), 413, None),
        ("predict", {}, 404, "no such verb; known: filter, prioritize, preempt, bind"),
    ],
)
def test_a_bad_request_is_one_line_and_disturbs_nothing(verb: str, body: object, status: int, line: str | None) -> None:
    async def story(extender: Extender) -> tuple[tuple[int, Any], Any]:
        return await extender.post(verb, body), await extender.ask("filter", asking(POD, "n1"))

    (got, text), after = during(story)
    assert (got, text.count("\n")) == (status, 1)
    assert line is None or text == f"{line}\n"
    assert after["NodeNames"] == ["n1"]


def test_a_body_of_50_mb_is_refused_before_it_is_read() -> None:
    async def story(extender: Extender) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(extender.url.rpartition(":")[2]))
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n\r\n{")
        answer = await reader.read()
        writer.close()
        return answer

    assert during(story).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "head, status",
    [
        (b"Content-Length: 10\r\n\r\n{", b"HTTP/1.1 408 "),  # the rest never comes
        (b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", b"HTTP/1.1 100 "),
    ],
)
def test_a_slow_request_is_given_up_and_an_expected_one_asked_for(head: bytes, status: bytes) -> None:
    async def story(extender: Extender) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(extender.url.rpartition(":")[2]))
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\n" + head)
        line = await reader.readline()
        writer.close()
        return line

    assert during(story, settings=ExtenderSettings(timeout=0.1)).startswith(status)


def test_only_post_is_allowed() -> None:
    async def story(extender: Extender) -> tuple[int, str, str]:
        async with extender.session.get(f"{extender.url}/filter") as response:
            return response.status, response.headers["Allow"], await response.text()

    assert during(story) == (405, "POST", "GET is not allowed; use POST\n")


def test_an_invalid_pod_is_an_error_of_the_answer() -> None:
    invalid = asking(POD, "n1")
    invalid["Pod"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1x"
    answer = during(lambda extender: extender.ask("filter", invalid))
    assert answer["NodeNames"] is None
    assert 'Pod default/a: spec.containers[0].resources.requests.cpu: invalid quantity "1x"' in answer["Error"]


def test_nothing_is_answered_before_the_first_lists() -> None:
    status, text = during(lambda extender: extender.post("filter", asking(POD, "n1")), is_listed=False)
    assert status == 503
    assert text.startswith("not ready: waiting for nodes")


@pytest.mark.parametrize(
    "header, status",
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer", 401),
        ("Digest secret", 401),
        ("Basic !", 401),
        ("Bearer secret", 200),
        ("Basic Ym9iOnNlY3JldA==", 200),  # bob:secret
    ],
)
def test_a_token_is_required_if_there_is_one(header: str | None, status: int, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    headers = {"Authorization": header} if header else {}

    async def story(extender: Extender) -> int:
        return (await extender.post("filter", asking(POD, "n1"), headers))[0]

    assert during(story, token=Token(str(tmp_path / "token"))) == status


def test_requests_are_counted_by_verb_and_status() -> None:
    async def story(extender: Extender) -> str:
        await extender.post("filter", b"{")
        await extender.ask("filter", asking(POD, "n1", "gone"))
        await extender.post("elsewhere", b"")
        return extender.metrics.text().decode()

    text = during(story)
    for line in (
        'bayplan_extender_requests_total{code="400",verb="filter"} 1.0',
        'bayplan_extender_requests_total{code="200",verb="filter"} 1.0',
        'bayplan_extender_requests_total{code="404",verb="other"} 1.0',
        'bayplan_extender_filtered_nodes_total{result="passed"} 1.0',
        'bayplan_extender_filtered_nodes_total{result="unresolvable"} 1.0',
    ):
        assert line in text


# -- certificates ---------------------------------------------------------------------------------------------------


def test_new_certificates_and_client_authorities_are_used_without_a_restart(tmp_path: Path) -> None:
    """The first authority signs server and client; after the change only the second one is known and trusted."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = (Authority(tmp_path / name) for name in ("first", "second"))
    served = {name: tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt")}

    def install(authority: Authority) -> None:
        pair = authority.issue_server()
        served["tls.crt"].write_bytes(pair.certificate.read_bytes())
        served["tls.key"].write_bytes(pair.key.read_bytes())
        served["ca.crt"].write_bytes(authority.certificate.read_bytes())

    def client(authority: Authority, *, shows: Authority | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        if shows is not None:
            pair = shows.issue_client("scheduler", ())
            context.load_cert_chain(pair.certificate, pair.key)
        return context

    async def story() -> list[str]:
        install(first)
        tls = ServingTls(ServingFiles(*(str(file) for file in served.values())))
        service, metrics, _ = extender_service(REPORT)
        async with serve_extender("127.0.0.1:0", service, metrics, most_bytes=MOST_BYTES, tls=tls) as port:
            outcomes = [await said(port, client(first, shows=first)), await said(port, client(first, shows=None))]
            reloading = asyncio.create_task(reload_on_change([str(each) for each in served.values()], tls.reload, 0.01))
            await asyncio.sleep(0.05)
            install(second)
            trusted = client(second, shows=second)
            for _ in range(200):
                await asyncio.sleep(0.01)
                if await said(port, trusted) == "200":
                    break
            reloading.cancel()
            outcomes += [
                await said(port, trusted),
                await said(port, client(second, shows=first)),
                await said(port, client(first, shows=first)),
            ]
        return outcomes

    async def said(port: int, context: ssl.SSLContext) -> str:
        url = f"https://127.0.0.1:{port}/filter"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            try:
                async with session.post(url, data=json.dumps(asking(POD, "n1"))) as response:
                    return str(response.status)
            except aiohttp.ClientError:
                return "refused"

    assert asyncio.run(story()) == ["200", "refused", "200", "refused", "refused"]


def test_unusable_new_files_leave_the_old_ones_in_use(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    token = Token(str(file))

    async def story() -> None:
        reloading = asyncio.create_task(reload_on_change([str(file)], token.reload, 0.001))
        await asyncio.sleep(0.02)
        file.write_text("")
        await asyncio.sleep(0.3)
        reloading.cancel()

    asyncio.run(story())
    assert "keeping the old ones" in caplog.text
    assert token.accepts("Bearer old")


@pytest.mark.parametrize("content, problem", [(None, "cannot read the token"), ("\n", "the file is empty")])
def test_a_missing_or_empty_token_is_an_error(content: str | None, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(AddressError, match=problem):
        Token(str(file))
