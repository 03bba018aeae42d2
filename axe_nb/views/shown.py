"""Calls, results and runs as they are shown: without secrets, filtered once for each text. Pure.

A text is filtered when it is complete, before it is cut: half a secret would not be recognised.
Nothing else of it is changed, but the seconds in the reports of this tree, so that two equal runs
are shown alike.
Source: goals.md "Safety"; docs/safety.md "What is shown and kept"; D-6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import Any

from axe_nb.conversion.jsonable import change_texts
from axe_nb.delegation.reports import REPORT
from axe_nb.messages import ToolCall, ToolResult
from axe_nb.redaction import Filter
from axe_nb.results import RunResult
from axe_nb.server_calls import Page, ServerCall, is_link


@dataclass(frozen=True, slots=True)
class TreeFilter:
    """Removes secrets from the texts of a tree, and the seconds of its reports."""

    secrets: Filter
    reports: Set[str] = frozenset()
    """Matches of REPORT in reports of the tree; the same words of anyone else's stay."""

    def text(self, text: str) -> str:
        """The text as it is shown."""
        shown = self.secrets.text(text)
        return REPORT.sub(self._mask, shown) if self.reports else shown

    def json(self, value: Any) -> Any:
        """Nested JSON data as it is shown."""
        shown = self.secrets.json(value)
        if not self.reports:
            return shown
        return change_texts(shown, lambda text: REPORT.sub(self._mask, text))

    def _mask(self, match: re.Match[str]) -> str:
        return f"{match[1]}, …s" if match[0] in self.reports else match[0]


def show_call(call: ToolCall, clean: TreeFilter) -> ToolCall:
    """The call without secrets in its name and arguments."""
    return replace(
        call,
        name=clean.text(call.name),
        arguments=clean.json(call.arguments),
        raw=clean.text(call.raw),
    )


def show_result(result: ToolResult, clean: TreeFilter) -> ToolResult:
    """The result of a call without secrets."""
    return replace(
        result,
        content=clean.text(result.content),
        name=clean.text(result.name),
        note=clean.text(result.note),
        edited=None if result.edited is None else clean.json(result.edited),
    )


def show_server_call(call: ServerCall, clean: TreeFilter) -> ServerCall:
    """A call of the model's server without secrets."""
    return ServerCall(
        clean.text(call.name),
        clean.json(call.arguments),
        show_pages(call.sources, clean),
        clean.text(call.error),
    )


def show_pages(pages: Iterable[Page], clean: TreeFilter) -> tuple[Page, ...]:
    """Pages without secrets in their titles and addresses; a damaged file may have no addresses."""
    return tuple(
        Page(clean.text(page.title), clean.text(page.url)) for page in pages if is_link(page.url)
    )


def show_run(result: RunResult, clean: TreeFilter) -> RunResult:
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
