"""Read what the options of a command name: objects of files or of a running cluster, and profiles.

Imports of the rooms below stand inside the functions: a `--help` must not wait for numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.options.common import STANDARD_INPUT, STDIN, kept
from bayplan.cli.options.configuration_file import ConfigurationFile
from bayplan.cli.shared.output import warn

if TYPE_CHECKING:
    from bayplan.kube.client.access import Access
    from bayplan.kube.files import Strictness
    from bayplan.kube.object_set import ObjectSet
    from bayplan.scheduling.profile import Profile

_Answer = TypeVar("_Answer")

# The role of deploy/base for people who only ask.
VIEWER = "bayplan-viewer"
GIVE_A_DUMP = "a dump can be given with --cluster FILE"


def read_all(paths: Sequence[Path]) -> ObjectSet:
    """The objects that `-f` submits, as one set. Pods are looked at at once, so that an error names the file.

    A folder may hold the file of `--cluster` as well, which is not submitted.
    """
    from bayplan.cluster.pods.pod_class import PodClasses
    from bayplan.kube.errors import InvalidObject
    from bayplan.kube.files import Strictness

    context = click.get_current_context(silent=True)
    dumps = () if context is None else context.params.get("cluster") or ()
    found = _read(paths, Strictness(kept("validate") or "strict"), [dump for dump in dumps if dump.is_file()])
    warn(found.remarks)
    classes = PodClasses()
    for pod in found.pods:
        try:
            classes.of(pod)
        except InvalidObject as error:
            raise found.naming_the_file(error, pod) from None
    return found


def read_cluster_files(paths: Sequence[Path]) -> ObjectSet:
    """The objects of a cluster in files."""
    return _read(paths)


def access_by(kubeconfig: str | None, context: str | None, instead: str = "") -> Access:
    """How to reach an API server; errors say what to do `instead`."""
    from bayplan.kube.client.access import find_access
    from bayplan.kube.client.credentials import AccessError

    try:
        return find_access(kubeconfig, context)
    except AccessError as error:
        raise click.ClickException(f"{error}; {instead}" if instead else str(error)) from None


def live_access() -> Access:
    """How to reach the cluster that the options of the running command name."""
    return access_by(kept("kubeconfig"), kept("context"), GIVE_A_DUMP)


def _read(paths: Sequence[Path], submitted: Strictness | None = None, without: Sequence[Path] = ()) -> ObjectSet:
    """The objects of several files or folders, `-` being standard input; of a cluster unless they are submitted."""
    from bayplan.kube.files import read_objects
    from bayplan.kube.object_set import ObjectSet

    found = ObjectSet()
    for path in paths:
        found.add(read_objects(STDIN if path == STANDARD_INPUT else path, submitted, without))
    return found


def read_live() -> ObjectSet:
    """The objects of the cluster that the kubeconfig names."""
    from bayplan.kube.client.live import read_cluster

    found, problems = asked_live(read_cluster)
    warn_unused(problems)
    return found


def asked_live(question: Callable[[Access], Coroutine[Any, Any, _Answer]]) -> _Answer:
    """What the cluster that the kubeconfig names answers."""
    import asyncio

    from bayplan.kube.client.client import ApiError, Unreachable
    from bayplan.kube.client.credentials import AccessError

    access = live_access()
    try:
        return asyncio.run(question(access))
    except AccessError as error:
        raise click.ClickException(f"{error}; {GIVE_A_DUMP}") from None
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise click.ClickException(f"cannot read the cluster: {error}") from None
        raise click.ClickException(f"{error.message}; the ClusterRole {VIEWER} has all rights for asking") from None
    except Unreachable as error:
        raise click.ClickException(f"cannot read the cluster: {error}") from None


def warn_unused(problems: Sequence[str]) -> None:
    """Say what of a cluster could not be read."""
    warn([f"not used: {problem}" for problem in problems])


def profiles_in(written: ConfigurationFile | None) -> dict[str, Profile]:
    """The profiles of a configuration, bayplan's default without one; errors in it name its source."""
    from bayplan.config.configuration import ConfigurationError, configuration_of
    from bayplan.plugins.node_resource_topology_args import ArgumentError
    from bayplan.scheduling.profile import default_profile

    if written is None:
        profile = default_profile()
        return {profile.name: profile}
    try:
        read = configuration_of(written.document)
    except (ConfigurationError, ArgumentError) as error:
        raise ConfigurationError(written.located(str(error))) from None
    warn([f"{written.source}: {remark}" for remark in read.remarks])
    return read.profiles
