"""bayplan's own programs: their rights, their pods, and who leads."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.doctor.findings import Finding, error, note, warning
from bayplan.doctor.installation import Installation, is_finished, shown_pod
from bayplan.doctor.rights import Right
from bayplan.explain.amounts import count
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Pod

MOST_NAMED = 4


def check_rights(installation: Installation) -> Iterator[Finding]:
    """Each service account has the rights that the manifests grant."""
    if installation.unasked:
        yield note(
            f"rights of service accounts were not checked: {installation.unasked}",
            "Run the doctor as a user who may create SubjectAccessReviews, or in a pod of the account itself.",
        )
    grouped: dict[tuple[str, str], list[Right]] = {}
    for right in installation.denied:
        grouped.setdefault((right.user, right.file), []).append(right)
    for (user, file), rights in grouped.items():
        named = ", ".join(right.shown for right in rights[:MOST_NAMED])
        more = f" and {len(rights) - MOST_NAMED} more" if len(rights) > MOST_NAMED else ""
        _, _, namespace, account = user.split(":")
        consequence = rights[0].optional
        severity = note if consequence else error
        yield severity(
            f"the account must not {named}{more}" + (f": {consequence}" if consequence else ""),
            f"Restore the role, or bind it again: kubectl apply -f {file}",
            f"serviceaccount/{namespace}/{account}",
        )


def check_programs(installation: Installation) -> Iterator[Finding]:
    """The scheduler is installed, and all pods of bayplan's are ready."""
    names = installation.names
    if installation.program(names.scheduler) is None:
        yield error(
            f"there is no Deployment {names.scheduler} in namespace {names.namespace}",
            "Install bayplan (kubectl apply -k deploy/base, or the Helm chart), or name its namespace with -n.",
        )
    for program in installation.programs:
        if program.ready < program.wanted:
            severity = error if program.kind == "Deployment" and not program.ready else warning
            yield severity(
                f"{program.ready} of {count(program.wanted, 'pod')} ready",
                f"See why: kubectl -n {program.namespace} describe pods; "
                f"kubectl -n {program.namespace} logs {program.kind.lower()}/{program.name}",
                program.shown,
            )
    images = {image for program in installation.programs for image in program.images}
    if len(images) > 1:
        yield warning(
            f"programs run different images: {', '.join(sorted(images)[:MOST_NAMED])}",
            "Finish the upgrade: set the same image everywhere (docs/operations.md has the order).",
            *(program.shown for program in installation.programs),
        )


def check_leader(installation: Installation) -> Iterator[Finding]:
    """A replica leads, so pods that name the scheduler are placed."""
    election, names = installation.election, installation.names
    if election.problem:
        yield error(
            f"the scheduler's configuration cannot be used: {election.problem}",
            f"Correct the ConfigMap {names.scheduler}; bayplan scheduler --config FILE --check-config says more.",
            f"configmap/{names.namespace}/{names.scheduler}",
        )
        return
    if not election.enabled or installation.program(names.scheduler) is None:
        return
    problem = _without_leader(installation)
    if not problem:
        return
    waiting = [pod for pod in installation.objects.pods if _waits(pod, installation.profiles)]
    pods = (
        f", and {count(len(waiting), 'pod')} that {'names' if len(waiting) == 1 else 'name'} it "
        f"{'waits' if len(waiting) == 1 else 'wait'}"
    )
    yield error(
        f"no replica of the scheduler leads: {problem}" + (pods if waiting else ""),
        f"See why no replica takes the lease: kubectl -n {names.namespace} logs deployment/{names.scheduler}",
        election.shown,
        *(shown_pod(pod) for pod in waiting),
    )


def _without_leader(installation: Installation) -> str:
    """Why no replica leads; empty if one does."""
    lease = installation.election.lease
    if lease is None:
        return "the lease does not exist"
    if not lease.holder_identity:
        return "the lease has no holder"
    renewed = moment_of(lease.renew_time or "")
    if renewed is None:
        return "the lease was never renewed"
    since = installation.now - renewed.timestamp()
    # Renewed every two seconds; twice the duration leaves room for a clock that is a few seconds off.
    if since > 2 * (lease.lease_duration_seconds or 15):
        return f"{lease.holder_identity} has not renewed the lease for {since:.0f} s"
    return ""


def _waits(pod: Pod, profiles: tuple[str, ...]) -> bool:
    return not pod.spec.node_name and pod.spec.scheduler_name in profiles and not is_finished(pod)
