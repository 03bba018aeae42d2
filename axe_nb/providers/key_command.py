"""Keys that a command prints: run without a shell, shared by all requests, never shown or kept.

Source: D-74, docs/providers.md.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from axe_nb.agents.provider_table import KeyCommand
from axe_nb.errors import ProviderError
from axe_nb.providers.protocol import Server
from axe_nb.text import format_seconds, quote

if TYPE_CHECKING:
    import subprocess

SECONDS = 30.0
"""Time limit of a command."""

FRESH_SECONDS = 600.0
"""Time after which a command is run again; the tokens of most services last an hour."""

PAUSE = 30.0
"""Seconds in which a key that is printed again after a refusal is not asked for once more."""

MAX_KEY = 16_384
"""Characters of a key; servers refuse longer headers."""

ServerT = TypeVar("ServerT", bound=Server)


class _Run(NamedTuple):
    """One run of a command."""

    key: Future[str]
    """The key once it has ended."""
    refused: str = ""
    """The key that the server refused before it."""
    began: float = -math.inf
    """The time of its start; -inf if the server refuses its key."""


_runs: dict[KeyCommand, _Run] = {}
"""Command → its last run."""

_lock = threading.Lock()
"""Guards `_runs`, which the event loops of all threads share."""


def _forget_runs() -> None:
    """Forgets the runs in a forked process, whose threads stayed behind."""
    global _lock
    _lock = threading.Lock()
    _runs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runs)


async def fill_in_key(server: ServerT) -> ServerT:
    """Returns the server with the key that its command prints; as it is if it has no command.

    Raises ProviderError if the command fails, takes too long or prints no key.
    """
    command = server.info.key_command
    if command is None or server.key:
        return server
    try:
        key = await asyncio.wrap_future(_start(command))
    except ProviderError as error:  # which others wait for too
        raise copy(error) from None
    return _with_key(server, key)


def forget_key(server: ServerT) -> ServerT:
    """Returns the server without its key, which is not used again."""
    command = server.info.key_command
    with _lock:
        run = _runs.get(command) if command else None
        if command and run and _has_key(run.key) and run.key.result() == server.key:
            is_same = run.refused == server.key and time.monotonic() - run.began < PAUSE
            _runs[command] = _Run(run.key, server.key, run.began if is_same else -math.inf)
    return _with_key(server, "")


def _with_key(server: ServerT, key: str) -> ServerT:
    return cast(ServerT, replace(cast(Any, server), key=key))


def _has_key(run: Future[str]) -> bool:
    return run.done() and run.exception() is None


def _start(command: KeyCommand) -> Future[str]:
    """Returns the run of a command whose key is still fresh, or that goes on; else starts one."""
    now = time.monotonic()
    with _lock:
        last = _runs.get(command)
        is_fresh = last is not None and _has_key(last.key) and now - last.began < FRESH_SECONDS
        if last and (is_fresh or not last.key.done()):
            return last.key
        run: Future[str] = Future()
        run.set_running_or_notify_cancel()  # no one who waits can cancel it for the others
        _runs[command] = _Run(run, last.refused if last else "", now)
    threading.Thread(target=_work, args=(command, run), name="axe-nb-key", daemon=True).start()
    return run


def _work(command: KeyCommand, run: Future[str]) -> None:
    try:
        key = _read_key(_read_output(command, run))
    except Exception as error:  # whoever waits must hear of it
        reason = getattr(error, "strerror", None) or str(error)
        _fail(command, run, reason)
    else:
        with suppress(InvalidStateError):  # it has taken too long
            run.set_result(key)


def _fail(command: KeyCommand, run: Future[str], reason: str) -> None:
    problem = f"no key from the command {quote(command.name)}: {reason} ({command.place})"
    hint = "run the command in a terminal: what it prints is never shown here"
    with suppress(InvalidStateError):
        run.set_exception(ProviderError("auth", problem, hint=hint))


def _read_output(command: KeyCommand, run: Future[str]) -> bytes:
    """Returns what the command prints, not much more than a key.

    Raises:
        OSError: it cannot be started.
        ValueError: it fails.
    """
    import subprocess

    from axe_nb.sandbox.process import kill_group, wait_exit

    process = subprocess.Popen(
        command.words, cwd=command.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    timer = threading.Timer(SECONDS, _give_up, (command, run, process))
    timer.daemon = True
    timer.start()
    with process:
        try:
            output = process.stdout.read(2 * MAX_KEY)
            if len(output) == 2 * MAX_KEY:
                kill_group(process)
            wait_exit(process)
        finally:
            timer.cancel()
    if len(output) == 2 * MAX_KEY:
        raise ValueError("it prints more than a key")
    if process.returncode < 0:
        raise ValueError(f"it was ended by signal {-process.returncode}")
    if process.returncode:
        raise ValueError(f"it failed with exit status {process.returncode}")
    return output


def _give_up(command: KeyCommand, run: Future[str], process: subprocess.Popen[bytes]) -> None:
    """Ends a command that takes too long; what it leaves behind may still hold its output open."""
    from axe_nb.sandbox.process import kill_group

    _fail(command, run, f"it did not end within {format_seconds(SECONDS)}s")
    kill_group(process)


def _read_key(output: bytes) -> str:
    """Returns the first line of an output.

    Raises ValueError if it cannot be a key; the message does not quote it.
    """
    key = output.decode("utf-8", "replace").strip().split("\n", 1)[0].strip()
    if not key:
        raise ValueError("it printed nothing")
    if len(key) > MAX_KEY:
        raise ValueError(f"the line that it printed has more than {MAX_KEY} characters")
    if not (key.isascii() and key.isprintable()):
        raise ValueError("it printed characters that no key has")
    return key
