"""One map: what its runs are asked, within which limits, and what is kept of them.

Source: product.md "Exploring"; D-2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.engine.loop import MAX_ERROR
from axe_nb.engine.plan import Plan
from axe_nb.errors import AxeError, ConfigError, ExpectationError, words
from axe_nb.expectations.check import check
from axe_nb.maps.budget import BudgetOption, MapMeter, make_meter
from axe_nb.maps.digest import compute_digest, compute_key
from axe_nb.maps.kept import Kept, Resume, open_kept
from axe_nb.maps.own_session import MapSession, open_session
from axe_nb.maps.progress import Tally
from axe_nb.maps.summary import Keep, summarize
from axe_nb.maps.tasks import Task, read_task
from axe_nb.pictures.picture import Picture
from axe_nb.results import RunResult, Status, name_run
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.text import one_line
from axe_nb.tools.output_form import WrongOutput

Receive = Callable[[int, RunResult], None]
"""(position of the prompt, result) of a run that has ended."""


@dataclass
class Asking:
    """An agent and the options of its runs; a map has one, a grid one for each variant."""

    agent: str | Agent | None
    options: Mapping[str, Any]
    """As keywords."""
    expect: str | None = None
    """Expectations that the caller checks; None = those of the options."""
    plan: Plan | None = None
    """That of a run with a blank prompt, which has shown that the configuration is valid."""
    common: bytes = field(default=b"", repr=False)
    """Hash of what its runs have in common, for the resume file."""

    def __post_init__(self) -> None:
        self.overrides = Overrides.of(self.options)

    def change(self, **options: Any) -> None:
        """Sets options.

        Raises:
            ConfigError: one is invalid.
        """
        self.options = {**self.options, **options}
        self.overrides = Overrides.of(self.options)

    def make_request(self, text: str = "", pictures: tuple[Picture, ...] = ()) -> RunRequest:
        """Returns the request of a run."""
        return RunRequest(
            agent=self.agent, prompt=text, pictures=pictures, overrides=self.overrides
        )

    async def prepare(self, session: MapSession) -> Plan:
        """Returns the plan of a run with a blank prompt.

        Raises:
            ConfigError: no run could begin.
        """
        expect = self.overrides.expect if self.expect is None else self.expect
        overrides = replace(self.overrides, timeout=None, expect=expect)
        request = RunRequest(agent=self.agent, overrides=overrides)
        self.plan = await session.plan(request, is_dry=session.is_dry)
        return self.plan


@dataclass(kw_only=True)
class Batch:
    """The runs of one map, or of one grid."""

    askings: Sequence[Asking]
    keep: Keep
    session: MapSession
    tally: Tally
    meter: MapMeter | None = None
    resume: Resume = None
    """The file that keeps the results and has those of earlier runs; True = the history."""
    is_kept: bool = False
    """True if the history keeps the results although nothing is resumed."""
    receive: Receive = lambda index, result: None
    """Takes each result; called on the event loop."""
    stop: Callable[[], None] = lambda: None
    """Keeps further runs from beginning; called on the event loop."""
    stopped: str = ""
    """Why further runs did not begin; empty = nothing kept them from it."""
    file: Kept | None = None
    _is_ready: bool = field(default=False, repr=False)

    async def prepare(self) -> None:
        """Checks the configuration that runs share, and opens what keeps results.

        Raises:
            ConfigError: no run could begin, or what keeps results cannot be used.
        """
        if self._is_ready:
            return
        for asking in self.askings:
            plan = await asking.prepare(self.session)
            self.tally.name = self.tally.name or name_run(plan.agent.name, plan.agent.model)
            if self.is_kept or self.resume not in (None, False):
                asking.common = await compute_digest(plan, asking.overrides)
        if self.file is None:
            self.file = open_kept(self.resume, is_kept=self.is_kept)
        if self.resume is True:
            self.tally.source = "history"
        self._is_ready = True

    def make_task(self, index: int, prompt: object) -> Task:
        """Returns the task of a prompt, with its key if results are kept."""
        task = read_task(prompt)
        key = ""
        if self.file is not None and task.problem is None:
            key = compute_key(self.askings[task.asking].common, task.text, task.pictures)
        return replace(task, index=index, key=key)

    def make_request(self, task: Task) -> RunRequest:
        """Returns the request of a run."""
        return self.askings[task.asking].make_request(task.text, task.pictures)

    def settle(self, task: Task) -> bool:
        """Passes on the result of a task that needs no run; False = it needs one.

        That is one without a prompt, and one whose result was kept.
        """
        if task.problem is not None:
            self.finish(task, self.make_failed(task, task.problem))
            return True
        kept = self.file.take(task.key) if self.file and task.key else None
        if kept is None:
            return False
        self._pass_on(task, _convert(kept, self._find_plan(task)), is_from_file=True)
        return True

    def finish(self, task: Task, result: RunResult) -> None:
        """Keeps the result of a run that has ended, and passes it on."""
        if self.keep == "summaries":
            result = summarize(result)
        if self.file and task.key:
            self.file.append(task.key, result)
        if result.status == "cancelled" and (why := self.find_end()):
            self.stop_for(why)
        self._pass_on(task, result)

    def make_failed(self, task: Task, error: BaseException, status: Status = "error") -> RunResult:
        """Returns the result of a run that could not begin, or was lost."""
        agent = self._find_plan(task).agent
        hint = error.hint if isinstance(error, AxeError) else ""
        why = "; ".join(filter(None, (words(error), hint)))
        return RunResult(
            status=status, text="", agent=agent.name, model=agent.model,
            error=one_line(why, MAX_ERROR), prompt=task.text, task=task.text,
            cause=copy(error) if isinstance(error, AxeError) else None,
        )  # fmt: skip

    def find_end(self) -> str:
        """Returns why no further run may begin; empty = one may."""
        return self.meter.find_end() if self.meter else ""

    def stop_for(self, why: str) -> None:
        """Keeps further runs from beginning, as the budget is spent; those in progress go on."""
        if not self.stopped:
            self.stopped = why
            self.tally.notes.append(why)
        self.stop()

    def describe_resuming(self) -> str:
        """Returns how a stopped map or grid is continued."""
        if self.resume:
            return "run it again to continue from there"
        return "with resume=PATH, the same call would continue"

    def close(self) -> None:
        """Closes what keeps results; the tally has the notes about it, and about the budget."""
        if self.meter and not self.stopped:
            self.tally.notes.extend(self.meter.describe_overshoots())
        if self.file is None:
            return
        self.file.close()
        if self.file.problem:
            self.tally.notes.append(self.file.problem)

    def _pass_on(self, task: Task, result: RunResult, *, is_from_file: bool = False) -> None:
        result = self._expect(task, result)
        self.tally.add(result, is_from_file=is_from_file)
        self.receive(task.index, result)

    def _find_plan(self, task: Task) -> Plan:
        plan = self.askings[task.asking].plan
        assert plan is not None
        return plan

    def _expect(self, task: Task, result: RunResult) -> RunResult:
        """The result; one that failed if the run did not meet its expectations."""
        overrides = self.askings[task.asking].overrides
        if overrides.expect is None or not result.ok:
            return result
        try:
            check(result, overrides.expect, agents_dir=overrides.agents_dir)
        except (ExpectationError, ConfigError) as error:
            why = one_line(words(error), MAX_ERROR)
            return replace(result, status="error", error=why, cause=copy(error))
        return result


def _convert(kept: RunResult, plan: Plan) -> RunResult:
    """A result of the file, with its data as the type that was asked for."""
    output = plan.output
    if output is None or kept.data is None:
        return kept
    try:
        data: Any = output.read(kept.text).value
    except WrongOutput:
        return kept
    return replace(kept, data=data)


def make_batch(
    agent: str | Agent | None,
    options: Mapping[str, Any],
    *,
    budget: BudgetOption,
    keep: Keep,
    resume: Resume,
    total: int | None,
) -> Batch:
    """Returns the batch of a map, in a session of its own.

    Raises:
        ConfigError: the budget or an option is invalid.
    """
    meter = make_meter(budget, "map")
    return Batch(
        askings=[Asking(agent, options)], keep=keep, resume=resume, meter=meter,
        session=open_session(meter),
        tally=Tally(agent.name if isinstance(agent, Agent) else agent or "", total),
    )  # fmt: skip
