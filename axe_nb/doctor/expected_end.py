"""`--raises`: a run succeeds if it ends with the expected status; by default, if it completes.

Source: product.md "Notebook"; B-8; seed 000 §8.
"""

from __future__ import annotations

from axe_nb.doctor.advice import with_next_step
from axe_nb.errors import AxeError, ConfigError, ProviderError, RunError
from axe_nb.results import RunResult

KINDS = {"config": ConfigError, "provider": ProviderError}
"""Value of `--raises` that is not a status → the error that it expects."""


def is_expected(error: AxeError, raises: str | None) -> bool:
    """True if the run could not start and `--raises` expects that error."""
    return isinstance(error, KINDS.get(raises or "", ()))


def check_end(result: RunResult, raises: str | None) -> None:
    """Raises unless the run completed, or ended as `--raises` expects.

    Raises:
        AxeError: the run ended differently.
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
        message = f"the run ended with status {result.status}, expected {raises} (--raises)"
        failure = RunError(message, exit_code=1)
        failure.place = result.place
        raise failure
