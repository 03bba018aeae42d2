"""A map: many runs of one agent, whose results are iterated over.

Source: product.md "Exploring"; D-2, D-8.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any, Literal

from axe_nb.errors import AxeError, ConfigError
from axe_nb.maps.batch import Batch
from axe_nb.maps.drives import Drive, DriveBlocking, DriveHere, Runs
from axe_nb.maps.progress import Progress
from axe_nb.maps.tasks import Prompts
from axe_nb.results import RunResult
from axe_nb.session.drive import Line
from axe_nb.session.portal import run_and_wait

LEFT = "the loop over it was left"
"""The reason of a map whose results were not all asked for."""

MOST_WAITING = 10_000
"""Results that wait for an earlier one before further runs do, if the map keeps none."""


class RunMap:
    """Many runs of one agent, which start when it is iterated over or awaited.

    `for` yields the results in the order of the prompts, and blocks; `async for` yields them as the
    runs end; `await` returns all of them, in the order of the prompts. Leaving a loop early cancels
    the runs in progress. `results` has the finished runs, however the map ended.
    """

    def __init__(
        self, batch: Batch, prompts: Prompts, runs: Runs, make_line: Callable[[], Line]
    ) -> None:
        """Creates the map; nothing is sent yet.

        Args:
            batch: what is run.
            prompts: the prompts.
            runs: runs it.
            make_line: makes the line that shows the progress, in the caller's thread.
        """
        self._batch, self._prompts, self._runs = batch, prompts, runs
        self._make_line = make_line
        self._results: dict[int, RunResult] = {}
        """Position → result, unless nothing is kept."""
        self._drive: Drive | None = None
        self._state: Literal["new", "running", "over"] = "new"

    def check(self) -> None:
        """Checks the configuration that all runs share. Blocks.

        Raises:
            ConfigError: no run could start.
        """
        run_and_wait(self._check())

    async def _check(self) -> None:
        await self._batch.prepare()
        await self._runs.prepare()

    @property
    def results(self) -> list[RunResult]:
        """The results so far, in the order of the prompts; empty with `keep="nothing"`."""
        return [result for _, result in sorted(self._results.copy().items())]

    @property
    def failures(self) -> list[RunResult]:
        """The results so far of runs that did not complete."""
        return [result for result in self.results if not result.ok]

    @property
    def done(self) -> bool:
        """True if no run is in progress and none will start."""
        return self._state == "over"

    @property
    def stopped(self) -> str:
        """The reason why not all prompts were run; empty = they were, or will be."""
        return self._batch.stopped

    def __repr__(self) -> str:
        new = "not started: iterate over it, or await it"
        state = {"new": new, "running": "running", "over": ""}
        parts = (self._batch.tally.format_end(), state[self._state])
        return f"<map of {'; '.join(filter(None, parts))}>"

    def cancel(self) -> None:
        """Cancels the runs in progress and starts no more. May be called from any thread."""
        self._batch.stop_for("cancelled")
        if self._drive is not None:
            self._drive.cancel()
        elif self._state == "new":
            self._end()

    def __iter__(self) -> Iterator[RunResult]:
        """Yields the results in the order of the prompts; those that are kept, after the end."""
        return self._list_kept() if self.done else self._iterate()

    def __aiter__(self) -> AsyncIterator[RunResult]:
        """Yields the results as the runs end; those that are kept, after the end."""
        return self._iterate_later()

    def __await__(self) -> Generator[Any, None, list[RunResult]]:
        """Returns the results in the order of the prompts."""
        return self._gather().__await__()

    def _iterate(self) -> Iterator[RunResult]:
        progress = self._begin()
        self._drive = drive = DriveBlocking(self._batch, self._prompts, self._runs, progress)
        receive = self._keep_too(drive)
        try:
            with closing(drive.run()) as ended:
                most = MOST_WAITING if self._batch.keep == "nothing" else math.inf
                yield from in_order(ended, receive, most)
        except GeneratorExit:
            self._batch.stop_for(LEFT)
            raise
        finally:
            self._end(progress)

    async def _iterate_later(self) -> AsyncIterator[RunResult]:
        if self.done:
            for result in self._list_kept():
                yield result
            return
        progress = self._begin()
        self._drive = drive = DriveHere(self._batch, self._prompts, self._runs, progress)
        receive = self._keep_too(drive)
        try:
            async with aclosing(drive.run()) as ended:
                async for _, result in ended:
                    receive()
                    yield result
        except GeneratorExit:
            self._batch.stop_for(LEFT)
            raise
        finally:
            self._end(progress)

    async def _gather(self) -> list[RunResult]:
        if self._batch.keep == "nothing":
            raise self._make_gone()
        if not self.done:
            async with aclosing(self._iterate_later()) as results:  # type: ignore[type-var]
                async for _ in results:
                    pass
        return self.results

    def _begin(self) -> Progress:
        if self._state == "running":
            raise AxeError("this map is already being iterated over", hint="create another one")
        if self._state == "over":
            raise self._make_gone()
        self._state = "running"
        return Progress(self._batch.tally, self._make_line())

    def _keep_too(self, drive: Drive) -> Callable[[], None]:
        """Has each result kept as it arrives; returns what notes that one was received."""
        if self._batch.keep != "nothing":
            pass_on = self._batch.receive

            def keep(index: int, result: RunResult) -> None:
                self._results[index] = result
                pass_on(index, result)

            self._batch.receive = keep
        return drive.pool.receive

    def _end(self, progress: Progress | None = None) -> None:
        self._state = "over"
        self._runs.close()
        self._batch.close()
        if progress is not None:
            progress.finish()

    def _list_kept(self) -> Iterator[RunResult]:
        if self._batch.keep == "nothing":
            raise self._make_gone()
        return iter(self.results)

    def _make_gone(self) -> ConfigError:
        return ConfigError(
            'the results of this map are not kept: keep="nothing"',
            hint="iterate over it once, or keep summaries",
        )


def in_order(
    ended: Iterator[tuple[int, RunResult]], receive: Callable[[], None], most: float
) -> Iterator[RunResult]:
    """Yields results in the order of their positions, those after a gap at the end.

    Results that wait for an earlier one count as received, so that the runs go on meanwhile.

    Args:
        ended: position and result of each run, as they end.
        receive: notes that a result was received.
        most: how many wait at most before the runs do.
    """
    waiting: dict[int, RunResult] = {}
    position = early = 0
    for index, result in ended:
        waiting[index] = result
        if position not in waiting and early < most:
            early += 1
            receive()
        while position in waiting:
            if early:
                early -= 1
            else:
                receive()
            yield waiting.pop(position)
            position += 1
    for _, result in sorted(waiting.items()):
        yield result
