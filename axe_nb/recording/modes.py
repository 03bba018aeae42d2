"""The modes of a cassette, and the choice between them. Source: D-68."""

from __future__ import annotations

import os
from typing import Literal, get_args

from axe_nb.agents.user_config import is_test
from axe_nb.errors import ConfigError
from axe_nb.text import quote

Mode = Literal["live", "record", "replay", "auto"]

MODES: tuple[Mode, ...] = get_args(Mode)

DEFAULT = "default: auto, headless replay"  # shown alike in all environments, for nbval

MODE = "AXE_CASSETTE_MODE"
"""Environment variable with the mode of cassettes that are opened without an explicit mode."""


def find_mode(given: Mode | None, *, can_ask: bool) -> Mode:
    """Returns the mode of a cassette: the given mode, the environment's mode, or the default.

    The default is `replay` in tests or if `can_ask` is false, and `auto` otherwise.
    """
    if given or (mode := os.environ.get(MODE, "")):
        return given or check_mode(mode)
    return "auto" if can_ask and not is_test() else "replay"


def check_sending() -> None:
    """Raises ConfigError if the environment requires `replay`. Called when no cassette is open."""
    if (mode := os.environ.get(MODE, "")) and check_mode(mode) == "replay":
        raise ConfigError(
            f"no cassette is in use, and {MODE}=replay allows no requests to models",
            hint="record a notebook with axe-nb freeze, or open a cassette with %axe cassette "
            'PATH, axe_nb.cassette("PATH") or AXE_CASSETTE',
        )


def check_mode(mode: str) -> Mode:
    """Returns the mode unchanged. Raises ConfigError if there is no such mode."""
    if mode not in MODES:
        hint = f"use one of {', '.join(MODES)}"
        raise ConfigError(f"unknown cassette mode {quote(str(mode))}", hint=hint)
    return mode
