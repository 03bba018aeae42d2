"""`axe_nb.map`: runs one agent on many prompts, and returns an iterable of the results.

Source: D-2, D-8.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from functools import partial
from typing import Any, Unpack, get_args

from axe_nb.agents.agent import Agent
from axe_nb.cell_display.front_end import find_variable, make_line
from axe_nb.conversion.jsonable import as_number
from axe_nb.conversion.toml_tables import is_whole
from axe_nb.engine.call import refuse_in_tool
from axe_nb.errors import AxeError, ConfigError
from axe_nb.exploring.executors import make_runs
from axe_nb.exploring.map_driver import (
    Asking,
    Batch,
    BudgetOption,
    Driver,
    Keep,
    Resume,
    Source,
    Tally,
    make_meter,
    open_session,
)
from axe_nb.results import RunResult
from axe_nb.session.overrides import (
    STEPS,
    Overrides,
    RunOptions,
    merge_options,
    refuse_steps,
    with_options_shown,
)
from axe_nb.session.portal import run_and_wait
from axe_nb.session.session import session
from axe_nb.text import one_line, shown_value
from axe_nb.views.appearance import LOOKS
from axe_nb.views.html import PLAIN, twin
from axe_nb.views.table import MAX_TREES, MOST_ROWS, count_left, fold, format_cell, format_table

HEADS = ("", "status", "prompt", "answer", "tokens")


@partial(with_options_shown, without=STEPS)
def map(
    agent: str | Agent | None,
    prompts: Source,
    *,
    concurrency: int = 8,
    executor: object = None,
    resume: Resume = None,
    budget: BudgetOption = None,
    keep: Keep = "results",
    display: bool = True,
    **options: Unpack[RunOptions],
) -> RunMap:
    """Returns a map, which runs an agent on many prompts once it is iterated over or awaited.

    `for` yields results in the order of the prompts, `async for` as the runs end, and `await`
    returns them all. A failed run has a result, too. `last()` and conversations stay unchanged,
    and no one is prompted for approval. Raises ConfigError if the configuration is invalid, before
    anything is sent.

    Args:
        agent: the agent or its name; None sends the prompts directly to `model`.
        prompts: an iterable or async iterable of texts, or of lists of texts and pictures; each is
            taken only when its run can start.
        concurrency: maximum number of runs at once.
        executor: where the runs take place: a `concurrent.futures.Executor`, a Dask client, an
            ipyparallel client or view; None runs them in this process.
        resume: path of a file that stores each result as its run ends. Stored runs are not
            repeated, unless they timed out, were cancelled, or failed but might now succeed.
        budget: limit for all runs together: US dollars, or a dict with keys of `[limits]`; when it
            is reached, runs in progress are cancelled at their next request.
        keep: `results` stores all results; `nothing` only yields each result once.
        display: if True, a line shows the progress.
        options: options of `axe_nb.run`, except `step` and `break_at`; `timeout` is per run.
    """
    refuse_in_tool("map")
    width = read_count("concurrency", concurrency)
    if keep not in get_args(Keep):
        raise ConfigError(f"keep takes results or nothing, not {shown_value(keep)}")
    overrides = Overrides.of(refuse_steps(merge_options(options, session.defaults), "a map"))
    meter = make_meter(budget, "map")
    name = agent.name if isinstance(agent, Agent) else agent or ""
    batch = Batch(
        askings=[Asking(agent, overrides)], session=open_session("map", meter),
        tally=Tally(name), keep=keep, meter=meter, resume=resume,
    )  # fmt: skip
    driver = Driver(batch, prompts, make_runs(batch, executor, width))
    run_and_wait(driver.runs.prepare())
    return RunMap(driver, display)


class RunMap:
    """Many runs of one agent, which start when the map is iterated over or awaited.

    `for` yields the results in the order of the prompts, and blocks; `async for` yields them as the
    runs end; `await` returns all of them, in the order of the prompts. Leaving a loop early cancels
    the runs in progress. `results` holds the results so far, however the map ended.
    """

    def __init__(self, driver: Driver, display: bool) -> None:
        self._driver, self._batch = driver, driver.batch
        self._display = display
        self._has_begun = self._is_over = False

    @property
    def results(self) -> list[RunResult]:
        """The results so far, in the order of the prompts; empty with `keep="nothing"`."""
        return [result for _, result in sorted(self._batch.results.copy().items())]

    @property
    def failures(self) -> list[RunResult]:
        """Results so far of the runs that did not complete."""
        return [result for result in self.results if not result.ok]

    @property
    def stopped(self) -> str:
        """Why the map starts no more runs, such as a spent budget; empty if nothing stopped it."""
        return self._batch.stopped

    def __repr__(self) -> str:
        return f"<map of {self._describe()}>"

    def _describe(self) -> str:
        new = "not started: iterate over it, or await it"
        state = "" if self._is_over else f"; {'running' if self._has_begun else new}"
        return f"{self._batch.tally.format()}{state}"

    def _repr_html_(self) -> str:
        """Formats the runs so far as a table, failures first; the rows open the runs' trees."""
        rows, room, name = [], MAX_TREES, find_variable(self) or "_"
        numbered = sorted(enumerate(self.results), key=lambda pair: pair[1].ok)
        for number, run in numbered[:MOST_ROWS]:
            said = format_cell(one_line(run.text or run.error or "", 300))
            tree = twin(run, name=f"{name}.results[{number}]")["text/html"] if room > 0 else ""
            room -= len(tree)
            rows.append([
                str(number), format_cell(f"{LOOKS[run.status].sign} {run.status}"),
                format_cell(one_line(run.prompt, 24)), fold(said, tree if room >= 0 else ""),
                f"{run.total_usage.total:,}",
            ])  # fmt: skip
        table = format_table(HEADS, rows, right=1, wide=3, is_cut=True) if rows else ""
        left = "".join(f"<p>{line}</p>" for line in count_left(len(numbered), f"{name}.results"))
        return f"<div class='{PLAIN}'><p>{format_cell(self._describe())}</p>{table}{left}</div>"

    def cancel(self) -> None:
        """Cancels the runs in progress and starts no more. May be called from any thread."""
        self._batch.stop_for("cancelled")
        if self._has_begun:
            self._driver.cancel()
        else:
            self._close()

    def __iter__(self) -> Iterator[RunResult]:
        """Yields results in the order of the prompts; a finished map yields its stored results."""
        if self._is_over:
            yield from self.results
            return
        waiting: dict[int, RunResult] = {}
        position = 0
        with self._run() as driver, closing(driver.iterate()) as ended:
            for one in ended:
                waiting[one.index] = one.result
                driver.receive()  # also if it waits for an earlier one: runs go on meanwhile
                while position in waiting:
                    yield waiting.pop(position)
                    position += 1
            yield from (result for _, result in sorted(waiting.items()))

    async def __aiter__(self) -> AsyncIterator[RunResult]:
        """Yields results as the runs end; a finished map yields its stored results."""
        if self._is_over:
            for result in self.results:
                yield result
            return
        with self._run() as driver:
            async with aclosing(driver.iterate_later()) as ended:
                async for one in ended:
                    yield one.result

    def __await__(self) -> Generator[Any, None, list[RunResult]]:
        async def gather() -> list[RunResult]:
            async with aclosing(aiter(self)) as results:  # type: ignore[type-var]
                async for _ in results:
                    pass
            return self.results

        return gather().__await__()

    @contextmanager
    def _run(self) -> Iterator[Driver]:
        if self._has_begun:
            raise AxeError("this map is already being iterated over", hint="create another one")
        self._has_begun = True
        tally = self._batch.tally
        tally.line, tally.began = make_line(self._display), time.monotonic()
        try:
            yield self._driver
        except GeneratorExit:
            self._batch.stop_for("the loop over it was left")
            raise
        finally:
            self._close()
            tally.finish()

    def _close(self) -> None:
        self._driver.runs.close()
        self._is_over = True


def read_count(name: str, number: object) -> int:
    found: Any = as_number(number)
    if not is_whole(found, 1):
        raise ConfigError(f"{name} takes a positive whole number, not {shown_value(number)}")
    return int(found)
