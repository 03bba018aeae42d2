"""`axe_nb.map` and `axe_nb.amap`: many runs of one agent.

Source: product.md "Exploring".
"""

from __future__ import annotations

from typing import Unpack

from axe_nb.agents.agent import Agent
from axe_nb.conversion.libraries import as_count
from axe_nb.conversion.own_text import shown_value
from axe_nb.engine.call import refuse_in_tool
from axe_nb.errors import ConfigError
from axe_nb.front_end import make_line
from axe_nb.maps.batch import make_batch
from axe_nb.maps.budget import BudgetOption
from axe_nb.maps.kept import Resume
from axe_nb.maps.places import make_runs
from axe_nb.maps.run_map import RunMap
from axe_nb.maps.summary import KEEPS, Keep
from axe_nb.maps.tasks import Prompts, Source
from axe_nb.session.overrides import RunOptions, merge_options, refuse_steps, with_options_shown
from axe_nb.session.session import session


@with_options_shown
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
    """Returns a map: runs of an agent on many prompts, which start when it is iterated over.

    `for` yields results in the order of the prompts, `async for` as the runs end, and `await`
    returns them all. A failed run is a result too. `last()` and conversations stay unchanged, and
    no one is prompted for approval.

    Args:
        agent: the agent or its name; None = the prompts go directly to `model`.
        prompts: an iterable or async iterable of texts, or of lists of texts and pictures; each is
            taken only when its run can start.
        concurrency: maximum number of runs at once.
        executor: where the runs take place: a `concurrent.futures.Executor`, a Dask client, an
            ipyparallel client or view; None = here.
        resume: a file that keeps each result as its run ends; True = the history. Runs kept there
            are not repeated, unless they timed out or were cancelled.
        budget: for all runs together: US dollars, or a dict with keys of `[limits]`; when it is
            reached, runs in progress are cancelled at their next request.
        keep: `results`; `summaries`: results without messages and exchanges; `nothing`: results
            are only yielded, once.
        display: if True, a line shows the progress.
        options: those of `axe_nb.run`; `timeout` applies to each run.

    Raises:
        ConfigError: invalid configuration, before anything is sent.
    """
    made = amap(
        agent, prompts, concurrency=concurrency, executor=executor, resume=resume, budget=budget,
        keep=keep, display=display, **options,
    )  # fmt: skip
    made.check()
    return made


@with_options_shown
def amap(
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
    """Like `map`, but never blocks: awaiting or iterating over it checks the configuration.

    Takes the arguments of `map`. `await axe_nb.amap(…)` returns the results; `async for` yields
    them as the runs end.
    """
    refuse_in_tool("map")
    width = as_count(concurrency)
    if width is None:
        raise ConfigError(
            f"concurrency takes a positive whole number, not {shown_value(concurrency)}"
        )
    if keep not in KEEPS:
        raise ConfigError(f"keep takes {', '.join(KEEPS)}, not {shown_value(keep)}")
    taken = Prompts(prompts)
    given = refuse_steps(merge_options(options, session.defaults), "a map")
    batch = make_batch(
        agent, given, budget=budget, keep=keep, resume=resume,
        total=taken.total,
    )  # fmt: skip
    [runs] = make_runs([batch], executor, width)
    return RunMap(batch, taken, runs, lambda: make_line(display))
