"""From the request of a fork to its root: agents as they were, changes at the place.

Source: D-53, D-66.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from axe_nb.agents.agent import Agent
from axe_nb.agents.prompt import confine
from axe_nb.engine.plan import make_plan
from axe_nb.engine.scope import Env, RunScope
from axe_nb.pictures.picture import Illustrated
from axe_nb.recording.fork import Fork, ForkPoint
from axe_nb.recording.fork_agents import RestoredAgents, restore_agents
from axe_nb.session.overrides import Overrides
from axe_nb.session.root_job import adapt, apply_overrides
from axe_nb.session.runs import RunRequest
from axe_nb.session.snapshot import Snapshot, describe_agents, find_output
from axe_nb.tools.tool import Job, Limits

CHECKED = "0.check"
"""The id of a run that is only checked."""


@dataclass
class BeginningFork:
    """A fork that is about to begin."""

    request: RunRequest
    point: ForkPoint
    restored: RestoredAgents
    snapshot: Snapshot
    given: Agent | None
    """The agent at the place, if one is named; None = the one that was there."""

    @cached_property
    def fork(self) -> Fork:
        """The recorded run that the new tree continues."""
        return Fork(self.point, self._adapt, self.restored.changed)

    def adapt_env(self, env: Env) -> Env:
        """The dependencies of the tree, with the options of the recorded run that still apply."""
        fork, kept = self.fork, self.point.root.definitions
        agents = describe_agents(self.snapshot, self.request.overrides, kept, fork.changed)
        env = replace(env, agents=agents, fork=fork)
        if kept is None:
            return env
        own = Overrides(model_all=kept.model_all or None, vars=kept.vars, timeout=None)
        return adapt(env, own)

    def make_job(self) -> tuple[Agent, Job]:
        """The root's agent and job."""
        root, options = self.point.root, self.request.overrides
        agent = self.restored.root
        had = Illustrated(root.prompt, root.pictures)
        job = Job(
            agent, root.task, had.text, Limits(seconds=options.timeout),
            history=tuple(self.point.history), output=find_output(root.definitions),
            pictures=had.pictures,
        )  # fmt: skip
        if self.point.run.id == root.id:
            agent, job = self._adapt(agent, job)
        else:
            agent = apply_overrides(agent, Overrides(model_all=options.model_all, timeout=None))
        agent = replace(agent, warnings=(*agent.warnings, *self.restored.warnings))
        return agent, self.fork.open(root.id, replace(job, agent=agent))

    async def check_place(self, scope: RunScope) -> None:
        """Checks that the sub-agent at the place can start with its changes, as a root is checked.

        Raises:
            ConfigError: it cannot.
        """
        run = self.point.run
        if run.id == self.point.root.id:
            return
        agent = self._find_agent(run.id)
        agent, job = self._adapt(agent, Job(agent, run.task, run.prompt, pictures=run.pictures))
        env = scope.env
        agent = confine(env.as_child(agent), Path(env.workdir), env.workdir, env.defined)
        below = scope.child(
            agent, job, scope.env, id=CHECKED, call_id=run.call_id, ahead=scope.clock.ahead
        )
        try:
            await make_plan(below, job)
        finally:
            below.meter.settle()

    def _find_agent(self, id: str) -> Agent:
        """The agent of a recorded run; that of its caller for a copy, which has none of its own."""
        runs = {run.id: run for run in self.point.root.walk()}
        while id != self.point.root.id:
            own = self.restored.changed.get(id) or self.restored.agents.get(runs[id].agent)
            if own is not None:
                return own
            id = id.rpartition(".")[0]
        return self.restored.root

    def _adapt(self, agent: Agent, job: Job) -> tuple[Agent, Job]:
        """Agent and job of the run at the place, with its changes."""
        point, options = self.point, self.request.overrides
        agent = apply_overrides(self.given or agent, options)
        if point.system_prompt is not None:
            agent = replace(agent, system_prompt=point.system_prompt)
        job = replace(job, mode=options.mode or job.mode, output=options.output or job.output)
        if point.prompt is not None and point.turn == 1:
            text, pictures = point.prompt
            job = replace(_replace_task(job, text), pictures=pictures)
        return agent, job


def _replace_task(job: Job, text: str) -> Job:
    """Returns a job with another task: the words that a tool put around it stay."""
    for prefix in ("Task: ", ""):
        if job.prompt.startswith(prefix + job.task):
            task = text.removeprefix(prefix)
            after = job.prompt.removeprefix(prefix + job.task)
            return replace(job, task=task, prompt=f"{prefix}{task}{after}")
    return replace(job, task=text, prompt=text)


def begin_fork(
    request: RunRequest, point: ForkPoint, find: Callable[[str], Agent], snapshot: Snapshot
) -> BeginningFork:
    """Gives a snapshot the agents of the run that is forked.

    Raises:
        ConfigError: an agent is gone.
    """
    given = find(request.agent) if isinstance(request.agent, str) else request.agent
    restored = restore_agents(point.root, find)
    snapshot.restore(restored.agents, restored.contexts)
    return BeginningFork(request, point, restored, snapshot, given)
