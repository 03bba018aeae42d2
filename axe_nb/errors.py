"""The exceptions a caller may catch; what a model should hear is in `tool.ToolError`.

AxeError
├── ConfigError     wrong before a word is sent: agent file, key, option (exit 2; bad model
│                   strings 1, a missing key 3)
├── ProviderError   the model's server said no, nonsense or nothing (exit 3; bad_request 1)
└── RunError        a run ended with another status than `completed` (exit by status, D-38)

Source: seed 000 §8, B-5, D-2, D-22, D-38.
"""

from __future__ import annotations

from typing import Any, Literal

Category = Literal["auth", "bad_request", "rate_limit", "overloaded", "server", "timeout"]


class AxeError(Exception):
    """Anything that axe_nb reports on purpose: one line with the cause, and a next step."""

    exit_code: int = 1
    """What the command line exits with."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        """One line: what is wrong, and where (file, key, line)."""
        self.hint = hint
        """One line: what to do next; empty where the message says it."""
        self.place = ""
        """Where in the tree of a run it happened; empty where there is no run."""

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles and copies hold the words, never a traceback: its frames keep engines alive."""
        return _rebuilt, (type(self), self.args, vars(self).copy())

    def lines(self) -> list[str]:
        """For people, at most three: the cause, where in the tree, the next step."""
        return [self.message, *(line for line in (self.place, self.hint) if line)]

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # place and hint come later
        """Lines that Python prints below an uncaught exception: the place and the next step."""
        return self.lines()[1:]

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it instead of a traceback."""
        first, *more = self.lines()
        return [f"{type(self).__name__}: {first}", *more]


def _rebuilt(kind: type[AxeError], args: tuple[object, ...], state: dict[str, Any]) -> AxeError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class ConfigError(AxeError):
    """An agent, a setting or an option is wrong; nothing has been sent."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "", exit_code: int = 2) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class ProviderError(AxeError):
    """A request to a model failed.

    Prints as `<category>: <message>` (B-5). Retrying may help where `retryable` is true.
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
    ) -> None:
        super().__init__(f"{category}: {message}", hint=hint)
        self.category: Category = category
        self.detail = message
        """The server's own message, one line, without the category."""
        self.status = status
        """HTTP status; None where no reply came."""
        self.retry_after = retry_after
        """Seconds that the server asks to wait; None where it does not say."""
        self.partial_text = partial_text
        """Text that had arrived when a stream broke."""
        self.exit_code = 1 if category == "bad_request" else 3

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.category in ("rate_limit", "overloaded", "server", "timeout")


def words(error: BaseException) -> str:
    """The message of an exception of any class, also of one whose text cannot be had."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


def interrupted(message: str) -> KeyboardInterrupt:
    """What is raised where the person at the keyboard stopped a run; IPython shows one line of it.

    It has no class of its own: Python ends a script by the signal for this very class alone, and
    a notebook records the class's name.
    """
    stop = KeyboardInterrupt(message)
    vars(stop)["_render_traceback_"] = lambda: [f"KeyboardInterrupt: {message}"]
    return stop


class RunError(AxeError):
    """A run did not complete; raised by `RunResult.raise_for_status()` only."""

    def __init__(self, message: str, *, exit_code: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
