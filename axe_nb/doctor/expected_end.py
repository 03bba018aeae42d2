"""`--raises`: a run succeeds if it ends as the person expects; without it, if it completes.

Source: product.md "Notebook"; B-8; seed 000 §8.
"""

from __future__ import annotations

from axe_nb.doctor.advice import with_next_step
from axe_nb.errors import AxeError, ConfigError, ProviderError, RunError
from axe_nb.events import RunResult

KINDS = {"config": ConfigError, "provider": ProviderError}
"""Value of `--raises` that is no status → the error that it expects."""


def is_expected(error: AxeError, raises: str | None) -> bool:
    """The run could not begin, and `--raises` says so."""
    return isinstance(error, KINDS.get(raises or "", ()))


def check_end(result: RunResult, raises: str | None) -> None:
    """Does nothing if the run ended as it should: completed, or as `--raises` says.

    Raises:
        AxeError: it did not.
    """
    if raises is None:
        with_next_step(result).raise_for_status()
        return
    met = (
        isinstance(result.cause, ProviderError)
        if raises == "provider"
        else (result.status == raises)
    )
    if not met:
        told = f"the run ended as {result.status}, not as {raises} (--raises)"
        failure = RunError(told, exit_code=1)
        failure.place = result.place
        raise failure
