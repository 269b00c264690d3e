"""Read the kubelet's configuration: its file with its flags on top, or its `configz` endpoint.

In come a URI (`file:///var/lib/kubelet/config.yaml`, a path, or `https://10.0.0.7:10250/configz`) and perhaps a file
with flags; the default is kubeadm's `kubeadm-flags.env` beside the configuration. Out goes a `KubeletSetup`, or a
`NoConfiguration` that names the source.

Pods usually do not know the CA of the kubelet's certificate, so it is not verified, as in other agents. The token that
is sent allows only reading this configuration (deploy/agent/).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec

from bayplan.kube.documents import in_place
from bayplan.kube.errors import InvalidObject
from bayplan.kube.files import read_document
from bayplan.kube.json_text import decode
from bayplan.services.agent.sources.kubelet_config import KubeletSetup, from_flags, setup_of

TIMEOUT = aiohttp.ClientTimeout(total=10.0)
MAX_ANSWER = 1 << 20
NOT_TLS_VERIFIED = False
KUBEADM_FLAGS = "kubeadm-flags.env"


class NoConfiguration(Exception):
    """The kubelet's configuration could not be read; the message says where and why."""


def checked_source(text: str) -> str:
    """The text, if it is a valid source; raises ValueError."""
    parts = urlsplit(text)
    if parts.scheme not in ("", "file", "https"):
        raise ValueError(f'"{text}": must be a path, file:///PATH or https://HOST:PORT/configz')
    if parts.scheme == "https" and not parts.hostname:
        raise ValueError(f'"{text}": names no host; is NODE_ADDRESS set?')
    return text


async def read_setup(source: str, flags: Path | None = None, token_file: Path | None = None) -> KubeletSetup:
    """Read the configuration. Without `flags`, those beside the file count, if there are any."""
    try:
        if source.startswith("https:"):
            # The answer includes the flags.
            return setup_of(await _configz(source, _token(token_file)), source)
        file = Path(urlsplit(source).path if source.startswith("file:") else source)
        setup = {**_document(file), **from_flags(_arguments(flags or _flags_beside(file)))}
        try:
            return setup_of(setup, source)
        except InvalidObject as error:
            raise in_place(error, file) from None
    except InvalidObject as error:
        named = str(error).startswith("kubelet")
        raise NoConfiguration(str(error) if named else f"kubelet configuration: {error}") from None
    except OSError as error:
        where = error.filename or source
        raise NoConfiguration(f"kubelet configuration {where}: {error.strerror or error}") from None


def _document(file: Path) -> Mapping[str, object]:
    document = read_document(file, strict=False)  # as the kubelet reads it
    if not isinstance(document, Mapping):
        raise NoConfiguration(f"kubelet configuration {file}: must be a KubeletConfiguration")
    return document


def _flags_beside(file: Path) -> Path | None:
    """The flags that kubeadm writes beside a configuration."""
    flags = file.with_name(KUBEADM_FLAGS)
    return flags if flags.exists() else None


def _arguments(flags: Path | None) -> list[str]:
    """A command line, or lines like `KUBELET_KUBEADM_ARGS="--node-ip=... --cpu-manager-policy=static"`."""
    if flags is None:
        return []
    try:
        text = flags.read_text(errors="replace")
    except OSError as error:
        raise NoConfiguration(f"kubelet flags {flags}: {error.strerror or error}") from None
    try:
        words = [word for line in text.splitlines() for word in shlex.split(line, comments=True)]
        return [part for word in words for part in (shlex.split(word.partition("=")[2]) if "=--" in word else [word])]
    except ValueError as error:
        raise NoConfiguration(f"kubelet flags {flags}: {error}") from None


def _token(file: Path | None) -> dict[str, str]:
    """The authorization header; read each time, because tokens rotate."""
    if file is None:
        return {}
    try:
        return {"Authorization": f"Bearer {file.read_bytes().decode('ascii').strip()}"}
    except UnicodeDecodeError:
        raise NoConfiguration(f"token {file}: is not text") from None


async def _configz(source: str, headers: Mapping[str, str]) -> Mapping[str, object]:
    try:
        async with (
            aiohttp.ClientSession(timeout=TIMEOUT) as session,
            session.get(source, headers=headers, ssl=NOT_TLS_VERIFIED) as answer,
        ):
            data = b""
            async for part in answer.content.iter_any():
                data += part
                if len(data) > MAX_ANSWER:
                    raise NoConfiguration(f"kubelet configuration {source}: has more than {MAX_ANSWER >> 20} MiB")
            if answer.status != 200:
                text = " ".join(data[:200].decode(errors="replace").split())
                raise NoConfiguration(f"kubelet configuration {source}: {answer.status} {answer.reason}: {text}")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise NoConfiguration(f"kubelet configuration {source}: {_explain(error)}") from None
    try:
        return decode(data, dict[str, object])
    except msgspec.MsgspecError as error:
        raise NoConfiguration(f"kubelet configuration {source}: this is not an answer of configz: {error}") from None


def _explain(error: aiohttp.ClientError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT.total:g} s"
    if isinstance(error, aiohttp.ClientConnectorError):
        # aiohttp's own message dumps its settings.
        number = error.os_error.errno or 0  # negative if the name does not resolve
        return f"cannot connect: {os.strerror(number) if number > 0 else error.os_error.strerror}"
    return str(error)
