"""The seconds that reports of sub-agents tell the caller's model, which no two equal runs share.

Recordings and differences compare requests without them; views show them as `…s`.
Source: D-6, D-59.
"""

from __future__ import annotations

import re

from axe_nb.messages import ToolResult

REPORTING = ("spawn_agent", "delegate_task")
"""The tools whose results have such seconds."""

CLOCK = re.compile(r"\b\d+\.\d+s\b")

REPORT = re.compile(r"(\b\d+ tool calls), \d+\.\ds\b")
"""Matches what a report says of one run."""

_SUBTASK = re.compile(r"^Subtask \d+: .*\n((?:.+\n?)+)", re.MULTILINE)
"""Matches the head of a subtask in a report of delegate_task."""


def without_seconds(result: ToolResult) -> str:
    """Returns the text of a result without what differs between equal runs."""
    return CLOCK.sub("…s", result.content) if result.name in REPORTING else result.content


def find_reports(tool: str, text: str) -> list[str]:
    """Returns what a tool's result reports of runs, before the words of these."""
    heads = _SUBTASK.findall(text) if tool == "delegate_task" else []
    if tool == "spawn_agent":
        heads = [text.partition("\n\n")[0]]
    return [match[0] for head in heads for match in REPORT.finditer(head)]
