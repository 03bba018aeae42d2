"""The place where the runs of a map are: this process, or the workers of an executor.

Source: product.md "Exploring" (executors); D-59.
"""

from __future__ import annotations

from collections.abc import Sequence

from axe_nb.maps.batch import Batch
from axe_nb.maps.drives import Runs
from axe_nb.maps.local import LocalRuns
from axe_nb.recording.modes import find_mode

HERE = "in this process, because a cassette is in use"


def make_runs(batches: Sequence[Batch], executor: object, concurrency: int) -> list[Runs]:
    """Returns what runs each batch; all are in one place.

    Args:
        batches: those of one map, or of a grid and its judge.
        executor: as in `axe_nb.map`; None = this process.
        concurrency: maximum runs at once, of each.

    Raises:
        ConfigError: the executor is of no kind that is known.
    """
    if executor is None:
        return [LocalRuns(batch, concurrency) for batch in batches]
    from axe_nb.maps.executors import find_workers
    from axe_nb.maps.remote import RemoteRuns

    workers, cassette = find_workers(executor), batches[0].session.cassette
    if cassette is not None and find_mode(cassette.mode, can_ask=False) != "live":
        # equal prompts have their answers in the order in which they come, which one place knows
        batches[0].tally.notes.append(HERE)
        return [LocalRuns(batch, concurrency) for batch in batches]
    return [RemoteRuns(batch, workers, concurrency) for batch in batches]
