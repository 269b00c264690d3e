"""`bayplan doctor`: what is wrong with an installation, and how to repair it."""

from __future__ import annotations

from pathlib import Path
from time import time

import click

from bayplan.cli.options.common import ExampleCommand, source_options
from bayplan.cli.options.flags import DOCUMENTS, file_size_option, output_option
from bayplan.cli.shared.output import print_answer, print_document, warn
from bayplan.cli.shared.reading import asked_live, read_cluster_files, warn_unused


@click.command(
    cls=ExampleCommand,
    examples=(
        "doctor",
        "doctor -n scheduling --agent-namespace scheduling",
        "doctor -o json",
        "doctor --cluster cluster.json",
        "doctor --fail-on error   # exit code 0 although there are warnings",
    ),
)
@source_options
@file_size_option
@click.option(
    "-n",
    "--namespace",
    default="bayplan-system",
    show_default=True,
    metavar="NAME",
    help="Where the scheduler and the pod grouper are installed.",
)
@click.option(
    "--agent-namespace",
    default="bayplan-agent",
    show_default=True,
    metavar="NAME",
    help="Namespace of the node agents.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help="The schedulerName of pods that bayplan places; repeatable. [default: as its ConfigMap says]",
)
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "error"]),
    default="warning",
    show_default=True,
    help="Lowest severity that makes the exit code 1.",
)
@output_option("text", *DOCUMENTS)
def doctor(
    *,
    cluster: tuple[Path, ...],
    namespace: str,
    agent_namespace: str,
    scheduler_names: tuple[str, ...],
    fail_on: str,
    output: str,
) -> int:
    """Check an installation and say how to repair what is wrong. Nothing is changed.

    Checks: versions of Kubernetes, installed kinds, rights of service accounts, pods of bayplan's, leader election,
    clocks; node reports that are missing, stale or contradict the node, its kubelet or its pods; agents of other
    versions; labels of the tree; nodes shared with another scheduler.

    Rights of other accounts are asked for by SubjectAccessReview, which needs an administrator; in a pod of the account
    itself, its own are asked for.

    Of a dump (--cluster) what needs only its objects is checked: reports, the tree, agents, versions and refusals of
    kubelets, shared nodes and, if they are in it, bayplan's Deployments and DaemonSets. The others are listed as not
    checked. The time is the newest moment that an object of the dump names.

    Exit code: 0 nothing found, 1 something is wrong, 2 the cluster cannot be read.
    """
    from bayplan.doctor.diagnosis import diagnose
    from bayplan.doctor.dump import installation_in
    from bayplan.doctor.findings import Severity
    from bayplan.doctor.installation import InstalledNames
    from bayplan.doctor.reading import read_installation
    from bayplan.doctor.text import diagnosis_document, diagnosis_text
    from bayplan.kube.errors import left_out
    from bayplan.kube.repeated_objects import leave_out_repeated

    names = InstalledNames(namespace=namespace, agent_namespace=agent_namespace)
    if cluster:
        objects = read_cluster_files(cluster)
        leave_out_repeated(objects)
        warn([*map(left_out, objects.left_out), *objects.remarks])
        installation = installation_in(objects, names, scheduler_names, read_at=time())
    else:
        installation, problems = asked_live(lambda access: read_installation(access, names, scheduler_names))
        warn_unused(problems)
    diagnosis = diagnose(installation)
    failed = diagnosis.fails(Severity[fail_on.upper()])
    if output == "text":
        print_answer(diagnosis_text(diagnosis), good=not failed)
    else:
        print_document(diagnosis_document(diagnosis), output)
    return 1 if failed else 0
