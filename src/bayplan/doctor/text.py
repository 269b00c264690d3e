"""A diagnosis as text and as a document. The first line is the answer; each problem is followed by its advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayplan.doctor.diagnosis import CheckResult, Diagnosis
from bayplan.doctor.findings import Finding
from bayplan.explain.documents import API_VERSION, Document
from bayplan.explain.topology.hostlist import compressed

MOST_SHOWN = 6
INDENT = " " * 9


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """All findings, the worst first; checks without any are one line."""
    found = [(result, finding) for result in diagnosis.results for finding in result.findings]
    found.sort(key=lambda each: -each[1].severity)  # stable: in the order of checks
    lines = [diagnosis.answer]
    for result, finding in found:
        lines += ["", *_lines(result, finding)]
    passed = [result.name for result in diagnosis.results if not result.findings]
    lines += ["", f"passed   {', '.join(passed)}"] if passed else []
    if diagnosis.not_checked:
        lines += ["", f"not checked: {', '.join(diagnosis.not_checked)}; the dump does not show them"]
    return "\n".join(lines)


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """What `bayplan doctor -o json` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Diagnosis",
        "answer": diagnosis.answer,
        "checks": [
            {
                "name": result.name,
                "status": "ok" if result.severity is None else result.severity.text,
                "findings": [
                    {
                        "severity": finding.severity.text,
                        "problem": finding.problem,
                        "advice": finding.advice,
                        "objects": list(finding.objects),
                    }
                    for finding in result.findings
                ],
            }
            for result in diagnosis.results
        ],
        "notChecked": list(diagnosis.not_checked),
    }


def _lines(result: CheckResult, finding: Finding) -> Iterator[str]:
    yield f"{finding.severity.text:7}  {result.name}: {finding.problem}"
    if finding.objects:
        yield INDENT + _objects(finding.objects)
    yield f"{INDENT}-> {finding.advice}"


def _objects(objects: Sequence[str]) -> str:
    """`node/n[1-40,42], node/m7 and 3 more`."""
    shown = compressed(objects)
    more = f" and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else ""
    return ", ".join(shown[:MOST_SHOWN]) + more
