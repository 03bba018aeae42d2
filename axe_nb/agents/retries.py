"""The retries of agents that set none: of the environment, else of `config.toml` (D-72)."""

from __future__ import annotations

import os
from typing import Any

from axe_nb.agents.tables import Retry, check_retry
from axe_nb.conversion.toml_tables import Source, build
from axe_nb.errors import ConfigError
from axe_nb.text import quote

VARIABLE = "AXE_NB_RETRIES"

DEFAULT_RETRIES = 2


def find_retries(table: Any, source: Source) -> int:
    """Returns the retries that the environment, else `[retry]` of the file, else nothing sets.

    Raises:
        ConfigError: an unknown key, or the variable is not a whole number.
        WrongValue: an invalid value.
    """
    retry = build(Retry, table, source, ("retry",))
    check_retry(retry)
    value = os.environ.get(VARIABLE, "").strip()
    if not value:
        return DEFAULT_RETRIES if retry.max_retries is None else retry.max_retries
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ConfigError(
            f"{VARIABLE} takes a whole number, not {quote(value)}",
            hint=f"for example {VARIABLE}=2; 0 = none",
        )
    return int(value)
