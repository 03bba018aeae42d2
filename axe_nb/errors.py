"""The exceptions that callers may catch.

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
    """Base class of errors raised by axe_nb, each with its cause and a next step."""

    exit_code: int = 1
    """Exit code of the command line."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        message = clean(message) if isinstance(message, str) else message
        super().__init__(message)
        self.message = message
        """The cause and its location (file, key, line), in one line."""
        self.hint = clean(hint)
        """The next step, in one line; empty if the message includes it."""
        self.place = ""
        """Agent and turn in which the error occurred; empty outside runs."""

    def __str__(self) -> str:
        """Returns the message without secrets, for display and files."""
        return redact(self.message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the error without its traceback, whose frames would keep runs alive."""
        return _rebuild, (type(self), self.args, vars(self).copy())

    def __copy__(self) -> Self:
        """Copies the error without its traceback, as pickling does."""
        return cast(Self, _rebuild(type(self), self.args, vars(self).copy()))

    def lines(self) -> list[str]:
        """Returns the lines to display, without secrets: cause, place, next step."""
        return [redact(line) for line in (self.message, clean(self.place), self.hint) if line]

    @property
    def __notes__(self) -> list[str]:  # a property, as place and hint are set later
        """Lines that Python prints below an uncaught exception: the place and the next step."""
        return self.lines()[1:]

    @__notes__.setter
    def __notes__(self, notes: object) -> None:
        """Ignores the notes that `distributed` sets on unpickled exceptions."""

    def _render_traceback_(self) -> list[str]:
        """Returns the lines that IPython displays instead of a traceback."""
        first, *more = self.lines()
        return [f"{type(self).__name__}: {first}", *more]


def _rebuild(kind: type[AxeError], args: tuple[object, ...], state: dict[str, Any]) -> AxeError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class ConfigError(AxeError):
    """An agent, setting, option or file is invalid; usually raised before a request is sent.

    The exit code is usually 2; it is 3 if a key is missing.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, hint: str = "", exit_code: int = 2, place: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.exit_code, self.place = exit_code, place


class ExpectationError(AxeError):
    """A run did not meet an expectation; `place` says where in the run tree.

    If the run was started with `expect`, `axe_nb.last()` returns its result.
    """


class CassetteMiss(AxeError):
    """A replayed run made a request that is not in the cassette; `hint` says how to record it."""


_SAID_AGAIN: dict[Category, str] = {
    "auth": "the server rejected the API key",
    "bad_request": "the server rejected the request",
    "refusal": "the model refused",
    "rate_limit": "too many requests",
    "overloaded": "the server is too busy",
    "server": "the server failed",
    "timeout": "no response in time",
}
"""Error category → explanation, shown if the server's message only repeats the category."""


class ProviderError(AxeError):
    """A request to a model failed. The error text is `<category>: <message>` (B-5)."""

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
        """The server's own message in one line, without the category."""
        self.status = status
        """The HTTP status; None if there was no response."""
        self.retry_after = retry_after
        """Seconds to wait, as requested by the server; None if it requested no wait."""
        self.partial_text = partial_text
        """Text received before a stream broke off."""
        passing = category in ("rate_limit", "overloaded", "server", "timeout")
        self.retryable = passing if retryable is None else retryable
        """True if sending the request again may help."""
        self.exit_code = 1 if category == "bad_request" else 3


def _list_letters(text: str) -> str:
    """Returns a text's letters without `error`, so that `Overloaded.` equals `overloaded_error`."""
    return re.sub(r"[^a-z]|error", "", text[:100].lower())


def words(error: BaseException) -> str:
    """Returns the message of any exception, even one whose `__str__` fails."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


def interrupted(message: str) -> KeyboardInterrupt:
    """Creates a KeyboardInterrupt for a run stopped by the user, shown as one line by IPython."""
    # not a subclass, which would not end a script by the signal
    message = redact(clean(message))
    stop = KeyboardInterrupt(message)
    vars(stop)["_render_traceback_"] = lambda: [f"KeyboardInterrupt: {message}"]
    return stop


class RunError(AxeError):
    """A run did not complete. Raised only by `RunResult.raise_for_status()`."""

    def __init__(self, message: str, *, exit_code: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
