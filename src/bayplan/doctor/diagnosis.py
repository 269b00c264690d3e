"""All checks of an installation, in the order in which problems should be repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bayplan.doctor.checks.api import check_kinds, check_versions
from bayplan.doctor.checks.clocks import check_clocks
from bayplan.doctor.checks.programs import check_leader, check_programs, check_rights
from bayplan.doctor.checks.reports import (
    check_agents,
    check_contents,
    check_fingerprints,
    check_missing_reports,
    check_policies,
    check_stale_reports,
)
from bayplan.doctor.checks.schedulers import check_shared_nodes
from bayplan.doctor.checks.tree import check_tree
from bayplan.doctor.findings import Finding, Severity
from bayplan.doctor.installation import Installation
from bayplan.explain.amounts import count

Check = Callable[[Installation], Iterable[Finding]]

CHECKS: dict[str, Check] = {
    "api-versions": check_versions,
    "kinds": check_kinds,
    "rights": check_rights,
    "programs": check_programs,
    "leader": check_leader,
    "clocks": check_clocks,
    "missing-reports": check_missing_reports,
    "stale-reports": check_stale_reports,
    "report-contents": check_contents,
    "kubelet-policies": check_policies,
    "fingerprints": check_fingerprints,
    "agents": check_agents,
    "tree": check_tree,
    "shared-nodes": check_shared_nodes,
}


def _has_reports(installation: Installation) -> bool:
    return bool(installation.reports)


# Checks that need only objects, and whether a dump has these.
OF_OBJECTS: dict[str, Callable[[Installation], bool]] = {
    "api-versions": lambda installation: bool(installation.objects.nodes),
    "programs": lambda installation: bool(installation.programs),
    "missing-reports": _has_reports,
    "stale-reports": _has_reports,
    "report-contents": _has_reports,
    "kubelet-policies": lambda installation: bool(installation.objects.pods),
    "fingerprints": _has_reports,
    "agents": _has_reports,
    "tree": lambda installation: bool(installation.objects.levels),
    "shared-nodes": lambda installation: bool(installation.objects.pods),
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check and what it found; nothing if all is well."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def severity(self) -> Severity | None:
        """The worst of its findings; None if there are none."""
        return max((each.severity for each in self.findings), default=None)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The results of all checks; `not_checked` are those that the dump does not have the objects for."""

    results: tuple[CheckResult, ...]
    not_checked: tuple[str, ...] = ()

    def number_of(self, severity: Severity) -> int:
        """How many findings are that bad."""
        return sum(each.severity is severity for result in self.results for each in result.findings)

    def fails(self, at_least: Severity) -> bool:
        """Whether any finding is that bad, or worse."""
        return any(each.severity >= at_least for result in self.results for each in result.findings)

    @property
    def answer(self) -> str:
        """`2 errors, 1 warning in 14 checks`, or `14 checks passed`."""
        numbers = [(self.number_of(each), each.text) for each in (Severity.ERROR, Severity.WARNING)]
        words = [count(number, word) for number, word in numbers if number]
        notes = self.number_of(Severity.NOTE)
        if not words:
            return f"{count(len(self.results), 'check')} passed" + (f"; {count(notes, 'note')}" if notes else "")
        return f"{', '.join(words)} in {count(len(self.results), 'check')}"


def diagnose(installation: Installation) -> Diagnosis:
    """Run every check; on a dump, those that it has the objects for."""
    left_out = tuple(
        name for name in CHECKS if installation.is_dump and not (name in OF_OBJECTS and OF_OBJECTS[name](installation))
    )
    results = (CheckResult(name, tuple(check(installation))) for name, check in CHECKS.items() if name not in left_out)
    return Diagnosis(tuple(results), left_out)
