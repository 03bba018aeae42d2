"""The exceptions that callers may catch; errors for models are in `tool.ToolError`.

Source: B-5, D-2, D-22, D-38.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self, cast

from axe_nb.secrets import redact
from axe_nb.text import clean

Category = Literal[
    "auth", "bad_request", "refusal", "rate_limit", "overloaded", "server", "timeout"
]


class AxeError(Exception):
    """Base class of the errors reported by axe_nb: one line with the cause, and a next step."""

    exit_code: int = 1
    """Exit code of the command line."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        message = clean(message) if isinstance(message, str) else message  # whatever callers do
        super().__init__(message)
        self.message = message
        """One line: the cause and its location (file, key, line)."""
        self.hint = clean(hint)
        """One line: the next step; empty if the message includes it."""
        self.place = ""
        """Agent and turn in which it occurred; empty outside of runs."""

    def __str__(self) -> str:
        """Returns the message for display and files, without secrets."""
        return redact(self.message)

    def __reduce__(self) -> tuple[object, ...]:
        """Keeps the texts in pickles and copies, but no traceback: its frames keep runs alive."""
        return _rebuild, (type(self), self.args, vars(self).copy())

    def __copy__(self) -> Self:
        """Copies like a pickle; `distributed` copies all other exceptions with their tracebacks."""
        return cast(Self, _rebuild(type(self), self.args, vars(self).copy()))

    def lines(self) -> list[str]:
        """The lines to display, without secrets, at most three: cause, place, next step."""
        return [redact(line) for line in (self.message, clean(self.place), self.hint) if line]

    @property
    def __notes__(self) -> list[str]:  # place and hint come later
        """Lines that Python prints below an uncaught exception: the place and the next step."""
        return self.lines()[1:]

    @__notes__.setter
    def __notes__(self, notes: object) -> None:
        """Ignores notes: `distributed` sets them on what it unpickles."""

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows instead of a traceback."""
        first, *more = self.lines()
        return [f"{type(self).__name__}: {first}", *more]


def _rebuild(kind: type[AxeError], args: tuple[object, ...], state: dict[str, Any]) -> AxeError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class ConfigError(AxeError):
    """An agent, setting or option is invalid; nothing has been sent.

    `hint` has the next step; the exit code is 2, or 3 if a key is missing.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, hint: str = "", exit_code: int = 2, place: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.exit_code, self.place = exit_code, place


class ExpectationError(AxeError):
    """A run did not meet an expectation; `place` is the branch of its tree that failed it.

    `axe_nb.last()` is the result of the run.
    """


class CassetteMiss(AxeError):
    """A replayed run sent a request that is not in the cassette and may not go to the model.

    The message says what changed; `hint` says how to record the request.
    """


_SAID_AGAIN: dict[Category, str] = {
    "auth": "the server rejected the API key",
    "bad_request": "the server rejected the request",
    "refusal": "the model refused",
    "rate_limit": "too many requests",
    "overloaded": "the server is too busy",
    "server": "the server failed",
    "timeout": "no response in time",
}
"""Explanations put before server messages that only repeat the category."""


class ProviderError(AxeError):
    """A request to a model failed; prints as `<category>: <message>` (B-5).

    If `retryable` is true, sending the request again may help.
    """

    def __init__(
        self,
        category: Category,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        partial_text: str = "",
        retryable: bool | None = None,
    ) -> None:
        told = message
        if _list_letters(message) == _list_letters(category) and category in _SAID_AGAIN:
            told = f"{_SAID_AGAIN[category]} ({message})"
        super().__init__(f"{category}: {told}", hint=hint)
        self.category: Category = category
        self.detail = clean(message)
        """The server's own message, one line, without the category."""
        self.status = status
        """The HTTP status; None if there was no reply."""
        self.retry_after = retry_after
        """Seconds to wait as requested by the server; None if not given."""
        self.partial_text = partial_text
        """Text received before a stream broke off."""
        passing = category in ("rate_limit", "overloaded", "server", "timeout")
        self.retryable = passing if retryable is None else retryable
        self.exit_code = 1 if category == "bad_request" else 3


def _list_letters(text: str) -> str:
    """The letters of a code, to compare `Overloaded.`, `overloaded_error` and the like."""
    return re.sub(r"[^a-z]|error", "", text[:100].lower())


def words(error: BaseException) -> str:
    """The message of any exception, even one whose `__str__` fails."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


def interrupted(message: str) -> KeyboardInterrupt:
    """A KeyboardInterrupt for a run stopped by the user; IPython shows it in one line.

    It is not a subclass: Python ends a script by the signal only for this very class, and a
    notebook records the name of the class.
    """
    message = redact(clean(message))
    stop = KeyboardInterrupt(message)
    vars(stop)["_render_traceback_"] = lambda: [f"KeyboardInterrupt: {message}"]
    return stop


class RunError(AxeError):
    """A run did not complete; raised by `RunResult.raise_for_status()` only."""

    def __init__(self, message: str, *, exit_code: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
