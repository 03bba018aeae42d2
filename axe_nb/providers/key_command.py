"""API keys from the user's key command, run without a shell; keys are never shown or saved."""

from __future__ import annotations

import asyncio
import math
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from axe_nb.agents.files import expand_home
from axe_nb.agents.user_config import config_dir, config_path, format_path
from axe_nb.errors import ProviderError
from axe_nb.providers.protocol import Server
from axe_nb.text import format_seconds, quote
from axe_nb.threads import in_thread

SECONDS = 30.0
"""Time limit for a key command, in seconds."""

FRESH_SECONDS = 600.0
"""Age in seconds at which a key is replaced; most services' tokens last an hour."""

PAUSE = 10.0
"""Age in seconds up to which a refused key is kept, as a new key would likely be refused too."""

ServerT = TypeVar("ServerT", bound=Server)

_keys: dict[tuple[str, ...], tuple[str, float]] = {}
"""Command → the last key that it printed, and the monotonic time at which the command ended."""


async def fill_in_key(server: ServerT, lock: asyncio.Lock | None = None) -> ServerT:
    """Returns the server with a key from its key command, if it has a command and no key.

    Raises ProviderError if the command fails. Concurrent requests that share a `lock` wait for the
    same run of the command.
    """
    command = server.info.key_command
    if not command or server.key:
        return server
    async with lock or asyncio.Lock():
        key, printed = _keys.get(command, ("", -math.inf))
        if time.monotonic() - printed > FRESH_SECONDS:
            try:
                key = await in_thread(_read_key, command)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                place = server.info.key_place.replace("config.toml", format_path(config_path()))
                told = f"{quote(Path(command[0]).name)}: {reason} ({place})"
                hint = "run the command in a terminal: what it prints is never shown here"
                raise ProviderError("auth", f"no key from the command {told}", hint=hint) from None
            _keys[command] = key, time.monotonic()
    return replace(server, key=key)


def forget_key(server: ServerT) -> ServerT:
    """Returns the server without its key command's refused key, unless the key is still new."""
    command = server.info.key_command
    if not command:
        return server
    key, printed = _keys.get(command, ("", 0.0))
    if key == server.key:
        if time.monotonic() - printed <= PAUSE:
            return server
        _keys.pop(command, None)
    return replace(server, key="")


def _read_key(command: Sequence[str]) -> str:
    """Runs a command and returns its first line of output.

    The command runs in the folder of `config.toml`, never in a project folder. Raises ValueError if
    the command fails or prints no key; the error message does not quote the output.
    """
    program, *arguments = command
    if Path(program).name != program:
        program = str(config_dir() / expand_home(program))
    try:
        process = subprocess.run(
            [program, *arguments], cwd=config_dir(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False,
            start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ValueError(f"it did not end within {format_seconds(SECONDS)}s") from None
    if process.returncode:
        raise ValueError(f"it failed with exit status {process.returncode}")
    key = process.stdout.decode("utf-8", "replace").strip().split("\n", 1)[0].strip()
    if not (key and key.isascii() and key.isprintable()):
        raise ValueError("it printed no key")
    return key
