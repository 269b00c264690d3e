"""What tests found out, gathered for a line at the end: values travel in the items' properties, from all workers."""

from __future__ import annotations

from typing import Any


def gathered(terminalreporter: Any, name: str) -> list[dict[str, Any]]:
    """The values of one property of all tests that ran."""
    return [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for key, value in report.user_properties
        if key == name
    ]
