"""A run as a line names it: `R`, a variable, or `R@PLACE`, a place in it.

Source: D-59.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from axe_nb.conversion.own_text import MAX_SHOWN
from axe_nb.errors import ConfigError
from axe_nb.recording.find_exchange import find_run
from axe_nb.results import RunResult
from axe_nb.session.runs import RunHandle
from axe_nb.session.session import session
from axe_nb.text import cut_chars, quote, suggestion

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def find_place(shell: InteractiveShell, text: str) -> tuple[RunResult, str]:
    """Reads `R@PLACE`, `@PLACE`, `PLACE` or `R`; returns the result and the place.

    Raises ConfigError: there is no such result.
    """
    name, _, place = ("", "", text) if text[:1].isdecimal() else text.partition("@")
    return find_result(shell, name), place


def find_tree(shell: InteractiveShell, text: str) -> RunResult:
    """Reads `R`, `R@0.2` or `0.2`; returns the run there, with all runs below it.

    Raises ConfigError: there is none.
    """
    result, place = find_place(shell, text)
    return find_run(result, place.removeprefix("@"))


def find_result(shell: InteractiveShell, name: str) -> RunResult:
    """Finds the result in a variable, or of the handle in it; without a name, the last one.

    Raises ConfigError: there is none, or the run has not ended.
    """
    value = shell.user_ns.get(name) if name else session.last
    if isinstance(value, RunHandle):
        if not value.done:
            raise ConfigError(f"{name} is still running", hint=f"wait for it: {name}.result()")
        value = value.result()
    if isinstance(value, RunResult):
        return value
    if not name:
        raise ConfigError("nothing has run yet", hint="run an agent first, or name a variable")
    if name in shell.user_ns:
        raise ConfigError(f"{name} is of type {type(value).__name__}, not the result of a run")
    results = [key for key, one in shell.user_ns.items() if isinstance(one, RunResult | RunHandle)]
    raise ConfigError(
        f"no variable {quote(cut_chars(name, MAX_SHOWN, '…'))}",
        hint=suggestion(name, results) or "bind a result with -o NAME, or leave the name out",
    )
