"""Records beside exchanges and decisions: outputs of tools, refusals by a cap.

Source: D-48, D-59.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axe_nb.conversion.jsonable import jsonable
from axe_nb.limits import RunStopped
from axe_nb.redaction import Filter
from axe_nb.results import Status
from axe_nb.tools.tool import ToolOutput


def describe(tool: str, arguments: Mapping[str, Any], clean: Filter) -> dict[str, Any]:
    """Returns a call as it is kept and compared."""
    return {"tool": tool, "arguments": clean.json(jsonable(arguments))}


def write_output(output: ToolOutput, clean: Filter) -> dict[str, Any]:
    """Returns the output of a tool as it is kept."""
    kept: dict[str, Any] = {"text": clean.text(output.content)}
    if output.is_error:
        kept["error"] = True
    if output.note:
        kept["note"] = clean.text(output.note)
    if output.pictures:
        kept["pictures"] = list(output.pictures)
    return kept


def read_output(kept: Mapping[str, Any]) -> ToolOutput:
    """Reverses `write_output`."""
    return ToolOutput(
        str(kept.get("text", "")), bool(kept.get("error")), str(kept.get("note", "")),
        tuple(kept.get("pictures", ())),
    )  # fmt: skip


def write_refusal(stop: RunStopped, clean: Filter) -> dict[str, Any]:
    """Returns a refusal by a cap as it is kept."""
    return {"cap": stop.cap, "status": stop.status, "error": clean.text(str(stop))}


def read_refusal(kept: Mapping[str, Any]) -> RunStopped:
    """Reverses `write_refusal`."""
    status: Status = "max_tokens" if kept.get("status") == "max_tokens" else "error"
    return RunStopped(status, str(kept.get("error", "")), str(kept.get("cap", "")))
