"""The `jsonschema` package, imported on first use: without care, it takes more than a second."""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from types import ModuleType

IRIS = "rfc3987_syntax"
"""Package for the format `iri`, which comes with JupyterLab and makes 39 parsers as it is imported.
"""

_importing = threading.Lock()


def load_jsonschema() -> None:
    """Imports jsonschema, but the package for `iri` only when an address is first checked by it.

    We check no formats; for others who use jsonschema in this process, they work as ever.
    """
    with _importing:
        if "jsonschema" in sys.modules or IRIS in sys.modules or not _is_installed():
            return
        stand_in = ModuleType(IRIS)
        stand_in.is_valid_syntax = _is_valid_syntax  # type: ignore[attr-defined]
        sys.modules[IRIS] = stand_in
        try:
            import jsonschema  # noqa: F401
        finally:
            sys.modules.pop(IRIS, None)


def _is_installed() -> bool:
    try:
        return find_spec(IRIS) is not None
    except ModuleNotFoundError:  # our imports are not looked for everywhere
        return False


def _is_valid_syntax(term: str, value: str) -> bool:
    from rfc3987_syntax import is_valid_syntax  # type: ignore[import-untyped]  # it has no types

    return bool(is_valid_syntax(term, value))
