"""Calls, results and runs as they are shown: without secrets, filtered once for each text. Pure.

A text is filtered when it is complete, before it is cut: half a secret would not be recognised.
Source: goals.md "Safety"; docs/safety.md "What is shown".
"""

from __future__ import annotations

from dataclasses import replace

from axe_nb.messages import ToolCall, ToolResult
from axe_nb.redaction import Filter
from axe_nb.results import RunResult


def show_call(call: ToolCall, clean: Filter) -> ToolCall:
    """The call without secrets in its name and arguments."""
    return replace(
        call,
        name=clean.text(call.name),
        arguments=clean.json(call.arguments),
        raw=clean.text(call.raw),
    )


def show_result(result: ToolResult, clean: Filter) -> ToolResult:
    """The result of a call without secrets."""
    return replace(
        result,
        content=clean.text(result.content),
        name=clean.text(result.name),
        note=clean.text(result.note),
        edited=None if result.edited is None else clean.json(result.edited),
    )


def show_run(result: RunResult, clean: Filter) -> RunResult:
    """The run without secrets in its own texts; those of its turns and children stay."""
    return replace(
        result,
        agent=clean.text(result.agent),
        model=clean.text(result.model),
        text=clean.text(result.text),
        error=result.error and clean.text(result.error),
        files_read=tuple(map(clean.text, result.files_read)),
        files_modified=tuple(map(clean.text, result.files_modified)),
        metadata=clean.json(result.metadata),
        warnings=tuple(map(clean.text, result.warnings)),
    )
