"""One map: what its runs are asked, within which limits, and what is kept of them.

Source: product.md "Exploring"; D-2.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.commands.overrides import Overrides
from axe_nb.engine.loop import MAX_ERROR
from axe_nb.engine.plan import Plan
from axe_nb.errors import AxeError, ConfigError, ExpectationError, words
from axe_nb.expectations.check import check
from axe_nb.limits import InFlight
from axe_nb.maps.budget import BudgetOption, MapMeter, make_meter
from axe_nb.maps.digest import compute_digest, compute_key
from axe_nb.maps.own_session import MapSession, open_session
from axe_nb.maps.progress import Tally
from axe_nb.maps.resume_file import ResumeFile
from axe_nb.maps.summary import Keep, summarize
from axe_nb.maps.tasks import Task
from axe_nb.outputs.output import WrongOutput
from axe_nb.pictures.found import split_prompt
from axe_nb.results import RunResult, Status, name_run
from axe_nb.session.runs import RunRequest
from axe_nb.text import one_line

Receive = Callable[[int, RunResult], None]
"""(position of the prompt, result) of a run that has ended."""


@dataclass(kw_only=True)
class Batch:
    """The runs of one map."""

    agent: str | Agent | None
    overrides: Overrides
    keep: Keep
    session: MapSession
    tally: Tally
    meter: MapMeter | None = None
    path: str | os.PathLike[str] | None = None
    """The resume file; None = there is none."""
    receive: Receive = lambda index, result: None
    """Takes each result; called on the event loop."""
    stop: Callable[[], None] = lambda: None
    """Keeps further runs from beginning; called on the event loop."""
    stopped: str = ""
    """Why further runs did not begin; empty = nothing kept them from it."""
    plan: Plan | None = None
    """That of a run with a blank prompt, which has shown that the configuration is valid."""
    file: ResumeFile | None = None
    _common: bytes = field(default=b"", repr=False)

    async def prepare(self) -> None:
        """Checks the configuration that all runs share, and opens the resume file.

        Raises:
            ConfigError: no run could begin, or the resume file cannot be used.
        """
        if self.plan is not None:
            return
        overrides = replace(self.overrides, timeout=None)
        plan = await self.session.plan(RunRequest(agent=self.agent, overrides=overrides))
        self.tally.name = name_run(plan.agent.name, plan.agent.model)
        if self.path is not None:
            self._common = await compute_digest(plan, overrides)
            self.file = ResumeFile(self.path)
        self.plan = plan

    def make_task(self, index: int, prompt: object) -> Task:
        """Returns the task of a prompt, with its key if there is a resume file."""
        if self.file is None:
            return Task(index, prompt)
        try:
            return Task(index, prompt, compute_key(self._common, *split_prompt(prompt)))
        except ConfigError:  # reported as the result of its run
            return Task(index, prompt)

    def make_request(self, task: Task) -> RunRequest:
        """Returns the request of a run.

        Raises:
            ConfigError: the prompt is neither a text nor a list of texts and pictures.
        """
        text, pictures = split_prompt(task.prompt)
        return RunRequest(
            agent=self.agent, prompt=text, pictures=pictures, overrides=self.overrides
        )

    def find_kept(self, task: Task) -> bool:
        """Passes on the result of a finished run of the resume file; False = there is none."""
        kept = self.file.take(task.key) if self.file and task.key else None
        if kept is None:
            return False
        self._pass_on(task, _convert(kept, self.find_plan(task)), is_from_file=True)
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
        plan = self.find_plan(task)
        assert plan is not None
        agent = plan.agent
        text = task.prompt if isinstance(task.prompt, str) else ""
        hint = error.hint if isinstance(error, AxeError) else ""
        why = "; ".join(filter(None, (words(error), hint)))
        return RunResult(
            status=status, text="", agent=agent.name, model=agent.model,
            error=one_line(why, MAX_ERROR), prompt=text, task=text,
            cause=copy(error) if isinstance(error, AxeError) else None,
        )  # fmt: skip

    def find_plan(self, task: Task) -> Plan | None:
        """Returns the plan that stands for all runs with the agent and options of a task."""
        return self.plan

    def find_end(self) -> str:
        """Returns why no further run may begin; empty = one may."""
        return self.meter.find_end() if self.meter else ""

    def stop_for(self, why: str) -> None:
        """Keeps further runs from beginning, as the budget is spent; those in progress go on."""
        if not self.stopped:
            self.stopped = why
            self.tally.notes.append(f"stopped: {why}")
        self.stop()

    def close(self) -> None:
        """Closes the resume file; the tally has the notes about it."""
        if self.file is None:
            return
        self.file.close()
        if self.file.problem:
            self.tally.notes.append(self.file.problem)

    def _pass_on(self, task: Task, result: RunResult, *, is_from_file: bool = False) -> None:
        result = self._expect(result)
        self.tally.add(result, is_from_file=is_from_file)
        self.receive(task.index, result)

    def _expect(self, result: RunResult) -> RunResult:
        """The result; one that failed if the run did not meet its expectations."""
        overrides = self.overrides
        if overrides.expect is None or not result.ok:
            return result
        try:
            check(result, overrides.expect, agents_dir=overrides.agents_dir)
        except (ExpectationError, ConfigError) as error:
            why = one_line(words(error), MAX_ERROR)
            return replace(result, status="error", error=why, cause=copy(error))
        return result


def _convert(kept: RunResult, plan: Plan | None) -> RunResult:
    """A result of the file, with its data as the type that was asked for."""
    output = plan.output if plan else None
    if output is None or kept.data is None:
        return kept
    try:
        data: Any = output.read(kept.text).value
    except WrongOutput:
        return kept
    return replace(kept, data=data)


def make_batch(
    agent: str | Agent | None,
    overrides: Overrides,
    *,
    budget: BudgetOption,
    keep: Keep,
    path: str | os.PathLike[str] | None,
    total: int | None,
) -> Batch:
    """Returns the batch of a map, in a session of its own.

    Raises:
        ConfigError: the budget is invalid.
    """
    meter = make_meter(budget)
    most = meter.limits.max_in_flight if meter else 0
    return Batch(
        agent=agent, overrides=overrides, keep=keep, path=path, meter=meter,
        session=open_session(meter, InFlight.of(most) if most else None),
        tally=Tally(agent.name if isinstance(agent, Agent) else agent or "", total),
    )  # fmt: skip
