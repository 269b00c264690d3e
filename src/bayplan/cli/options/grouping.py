"""How pods are put into gangs, as options: shared by the scheduler, which has a pod grouper built in,
and the pod grouper by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bayplan.grouping.group import GroupingSettings


def grouping_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--grouping` and `--grouping-rules`."""
    mode = click.option(
        "--grouping",
        type=click.Choice(["bayplan", "kai"]),
        default="bayplan",
        show_default=True,
        help="The rules by which workloads become gangs.",
    )
    rules = click.option(
        "--grouping-rules",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Grouping rules that add or override kinds of workloads.",
    )
    return mode(rules(command))


def grouping_settings(mode: str, rules: Path | None) -> GroupingSettings:
    """What the options mean; what is wrong with the file is one sentence."""
    if mode == "kai" and rules:
        raise click.UsageError("--grouping-rules does not go with --grouping kai, which groups the kinds as KAI does")
    from bayplan.grouping.group import settings_with
    from bayplan.grouping.rules import rules_of
    from bayplan.kube.documents import in_place
    from bayplan.kube.errors import InvalidObject
    from bayplan.kube.files import read_document

    if rules is None:
        return settings_with([], "kai" if mode == "kai" else "bayplan")
    document = read_document(rules)
    try:
        return settings_with(rules_of(document, str(rules)))
    except InvalidObject as error:
        raise in_place(error, rules) from None
