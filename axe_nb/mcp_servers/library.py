"""The `mcp` package, imported on first use: it takes a second."""

from __future__ import annotations

import logging
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.text import one_line

INSTALL = "pip install 'axe-nb[mcp]'"

MAX_PROBLEM = 300
"""Characters of an error that are quoted."""


def check_library() -> None:
    """Imports the package.

    Raises:
        ConfigError: it is not installed, or too old.
    """
    # what a server does wrong is reported by its calls, and its words are not for the notebook
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    try:
        from mcp import Client  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        raise ConfigError("MCP servers require the mcp package", hint=INSTALL) from None
    except ImportError:
        raise ConfigError(
            "MCP servers require version 2.3 or newer of the mcp package",
            hint=f"{INSTALL} --upgrade",
        ) from None


def describe(error: BaseException) -> str:
    """Returns the first cause of an error of the package, on one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = one_line(str(error), MAX_PROBLEM)
    return words or type(error).__name__


def is_closed(error: BaseException) -> bool:
    """True if an error of the package says that the connection has ended."""
    import mcp_types

    code: Any = getattr(getattr(error, "error", None), "code", None)
    return bool(code == mcp_types.CONNECTION_CLOSED)
