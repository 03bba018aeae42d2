"""What this process knows of agents, models, tools and runs; the one place that tests reset it."""

from __future__ import annotations

from typing import Any

from axe_nb.scripting.lookup import functions
from axe_nb.session.session import session
from axe_nb.toolbox import SESSION


def tables() -> list[dict[str, Any]]:
    """All that grows when something is defined or run."""
    return [functions, SESSION.tools, *(t for t in vars(session).values() if isinstance(t, dict))]


def saved() -> list[dict[str, Any]]:
    return [dict(table) for table in tables()]


def restore(before: list[dict[str, Any]]) -> None:
    session.last = None
    for table, content in zip(tables(), before, strict=True):
        table.clear()
        table.update(content)


def forget() -> None:
    restore([{} for _ in tables()])
