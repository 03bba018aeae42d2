"""Runs LLM agents that delegate to other agents, in notebook cells, and shows every turn.

Public names are loaded on first use, so that `import axe_nb` and `%load_ext axe_nb` are fast.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.9.0"

_MAGICS = ("axe", "axe_agent", "axe_grid")

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from axe_nb.agents.agent import Agent as Agent
    from axe_nb.api import arun as arun
    from axe_nb.api import cassette as cassette
    from axe_nb.api import define as define
    from axe_nb.api import expect as expect
    from axe_nb.api import history as history
    from axe_nb.api import last as last
    from axe_nb.api import load as load
    from axe_nb.api import replay as replay
    from axe_nb.api import run as run
    from axe_nb.api import stream as stream
    from axe_nb.engine.person import Step as Step
    from axe_nb.engine.toolbox import tool as tool
    from axe_nb.errors import AxeError as AxeError
    from axe_nb.errors import CassetteMiss as CassetteMiss
    from axe_nb.errors import ConfigError as ConfigError
    from axe_nb.errors import ExpectationError as ExpectationError
    from axe_nb.errors import ProviderError as ProviderError
    from axe_nb.errors import RunError as RunError
    from axe_nb.exploring.grid import Grid as Grid
    from axe_nb.exploring.run_grid import grid as grid
    from axe_nb.exploring.run_map import map as map
    from axe_nb.messages import Request as Request
    from axe_nb.messages import Response as Response
    from axe_nb.messages import ToolCall as ToolCall
    from axe_nb.messages import Usage as Usage
    from axe_nb.messages import call as call
    from axe_nb.providers.http import use_http_client as use_http_client
    from axe_nb.results import RunResult as RunResult
    from axe_nb.scripting.rules import script as script
    from axe_nb.scripting.server import script_server as script_server
    from axe_nb.tools.tool import ToolContext as ToolContext
    from axe_nb.tools.tool import ToolError as ToolError
    from axe_nb.views.export import export as export

_NAMES = {
    "agents.agent": "Agent",
    "api": "arun cassette define expect history last load replay run stream",
    "engine.person": "Step",
    "engine.toolbox": "tool",
    "errors": "AxeError CassetteMiss ConfigError ExpectationError ProviderError RunError",
    "exploring.grid": "Grid",
    "exploring.run_grid": "grid",
    "exploring.run_map": "map",
    "messages": "Request Response ToolCall Usage call",
    "providers.http": "use_http_client",
    "results": "RunResult",
    "scripting.rules": "script",
    "scripting.server": "script_server",
    "tools.tool": "ToolContext ToolError",
    "views.export": "export",
}
"""Module → public names that the module defines."""

_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = [*sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'axe_nb' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"axe_nb.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def _show(thing: RunResult | Grid) -> None:
    from axe_nb.cell_display.display import show_again

    show_again(thing)


def _tell_ipython() -> None:
    """Registers displays for results and grids, and magics that load the extension on first use."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    if shell is not None:
        formatter = shell.display_formatter.ipython_display_formatter
        formatter.for_type_by_name("axe_nb.results", "RunResult", _show)
        formatter.for_type_by_name("axe_nb.exploring.grid", "Grid", _show)
        manager = shell.magics_manager
        manager.lazy_magics = {**manager.lazy_magics, **dict.fromkeys(_MAGICS, __name__)}


_tell_ipython()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Adds the magics on `%load_ext axe_nb`; prints nothing, and may be called again."""
    from axe_nb.notebook.magics import load

    load(shell)
    _tell_ipython()
