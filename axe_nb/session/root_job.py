"""The agent and job of a root run, made from its request or from a fork.

Source: D-27, D-53, D-66.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from axe_nb.agents.agent import Agent, NoAgent, has_agent_file
from axe_nb.agents.prompt import confine, find_names
from axe_nb.engine.plan import make_plan
from axe_nb.engine.scope import Env, RunScope
from axe_nb.errors import ConfigError
from axe_nb.messages.model_table import suggest_model
from axe_nb.pictures.picture import Illustrated
from axe_nb.session.overrides import Overrides
from axe_nb.session.runs import RunRequest
from axe_nb.session.snapshot import Snapshot, describe_agents, find_output
from axe_nb.text import list_some, quote, suggestion
from axe_nb.tools.tool import Job, Limits

if TYPE_CHECKING:
    from axe_nb.recording.fork import ForkPoint

SIMPLE = [
    option.name
    for option in fields(Overrides)
    if option.name in {key.name for key in fields(Agent)} - {"params", "vars", "tools", "output"}
]
"""Options that replace the agent's key of the same name."""


def find_agent(request: RunRequest, env: Env) -> Agent:
    """Returns the agent of a request, or the stand-in for a request without one."""
    if isinstance(request.agent, Agent):
        return request.agent
    options, earlier = request.overrides, request.continue_from
    model = options.model or options.model_all or ""
    if request.agent is None:
        if earlier and not earlier.agent:
            model = model or earlier.model
        if not model:
            raise ConfigError(
                "neither an agent nor a model is named",
                hint=f'for example axe_nb.run(None, prompt, model="{suggest_model("anthropic")}")',
            )
        return NoAgent(name="", model=model)
    try:
        return env.agents.load(request.agent)
    except ConfigError as error:
        is_there = request.agent in env.defined or has_agent_file(request.agent, options.agents_dir)
        if model and not is_there:  # its name may be the prompt
            alone = (
                "to ask the model without an agent, give the prompt as -p TEXT, as the body of a "
                "cell, or to run(None, …)"
            )
            error.hint = "; ".join(filter(None, [error.hint, alone]))
        raise


def check_names(request: RunRequest, agent: Agent, env: Env) -> None:
    """Rejects names in the options of a run that do not occur in its tree.

    A misspelt variable or name of an agent would have no effect.
    """
    if given := request.overrides.vars:
        root = find_agent(request, env)
        known = {*find_names(root.system_prompt), *root.vars}
        if not given.keys() <= known:
            known.update(name for agents in env.walk_below((root,)) for name in agents[0].vars)
        if unknown := sorted(given.keys() - known):
            listed = f"known variables: {list_some(sorted(known), 5)}"
            step = listed if known else r"use {{ name }} in the system_prompt of an agent"
            raise ConfigError(
                f"no agent in this run has the variable {quote(unknown[0])}",
                hint=suggestion(unknown[0], known) or step,
            )
    expectations = request.overrides.expect
    if expectations is None:
        return
    from axe_nb.expectations import check_spelling

    agents = [agent, *(below[0] for below in env.walk_below((agent,)))]
    if not any(one.mcp_servers for one in agents):  # their tools are not known yet
        check_spelling(expectations, agents, request.overrides.agents_dir)


def adapt(env: Env, overrides: Overrides) -> Env:
    """The dependencies of a run with these overrides, and of its descendants."""
    as_child = env.as_child

    def adapt_child(agent: Agent) -> Agent:
        agent = _with_model(agent, overrides.model_all)
        if not overrides.vars.keys().isdisjoint(agent.vars):
            values = {name: overrides.vars.get(name, own) for name, own in agent.vars.items()}
            agent = replace(agent, vars=values)
        return as_child(agent)

    return replace(
        env,
        retries=env.retries if overrides.retries is None else overrides.retries,
        tools=(*env.tools, *(t for t in overrides.tools or () if not isinstance(t, str))),
        as_child=adapt_child,
    )


def make_job(request: RunRequest, env: Env) -> tuple[Agent, Job]:
    overrides, earlier = request.overrides, request.continue_from
    agent = apply_overrides(find_agent(request, env), overrides)
    job = Job(
        agent, request.prompt, request.prompt, Limits(seconds=overrides.timeout),
        mode=overrides.mode, history=earlier.messages if earlier else (),
        output=overrides.output, pictures=request.pictures,
    )  # fmt: skip
    return agent, job


def apply_overrides(agent: Agent, overrides: Overrides) -> Agent:
    changes = {name: value for name in SIMPLE if (value := getattr(overrides, name)) is not None}
    if overrides.model is None:
        agent = _with_model(agent, overrides.model_all)
    if overrides.tools is not None:
        changes["tools"] = overrides.tools  # tools that are objects travel with the agent
    for table in ("params", "vars"):
        if given := getattr(overrides, table):
            changes[table] = {**getattr(agent, table), **given}
    return replace(agent, **changes) if changes else agent


def _with_model(agent: Agent, model: str | None) -> Agent:
    return agent if model is None else replace(agent, model=model)


class BeginningFork:
    """A fork whose tree is about to start; its snapshot gets the agents of the forked run."""

    def __init__(
        self,
        request: RunRequest,
        point: ForkPoint,
        find: Callable[[str], Agent],
        snapshot: Snapshot,
    ) -> None:
        from axe_nb.recording.fork import Fork, restore_agents  # few runs are forks

        self.request, self.point, self.snapshot = request, point, snapshot
        self.given = find(request.agent) if isinstance(request.agent, str) else request.agent
        self.restored = restore_agents(point.root, find)
        snapshot.restore(self.restored.agents, self.restored.contexts)
        self.fork = Fork(point, self._adapt, self.restored.changed)

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
        """Checks that the sub-agent at the place can start with its changes."""
        run = self.point.run
        if run.id == self.point.root.id:
            return
        runs = {one.id: one for one in self.point.root.walk()}
        agent, id = None, run.id
        while agent is None and id != self.point.root.id:  # a copy has the agent of its caller
            agent = self.restored.changed.get(id) or self.restored.agents.get(runs[id].agent)
            id = id.rpartition(".")[0]
        agent = agent or self.restored.root
        agent, job = self._adapt(agent, Job(agent, run.task, run.prompt, pictures=run.pictures))
        env = scope.env
        agent = confine(env.as_child(agent), Path(env.workdir), env.workdir, env.defined)
        below = scope.child(
            agent, job, env, id="0.check", call_id=run.call_id, ahead=scope.clock.ahead
        )
        try:
            await make_plan(below, job)
        finally:
            below.meter.settle()

    def _adapt(self, agent: Agent, job: Job) -> tuple[Agent, Job]:
        point, options = self.point, self.request.overrides
        agent = apply_overrides(self.given or agent, options)
        if point.system_prompt is not None:
            agent = replace(agent, system_prompt=point.system_prompt)
        job = replace(job, mode=options.mode or job.mode, output=options.output or job.output)
        if point.prompt is not None and point.turn == 1:
            text, pictures = point.prompt
            prompt = text
            for prefix in ("Task: ", ""):  # the text that a tool put around the task stays
                if job.prompt.startswith(prefix + job.task):
                    text = text.removeprefix(prefix)
                    after = job.prompt.removeprefix(prefix + job.task)
                    prompt = f"{prefix}{text}{after}"
                    break
            job = replace(job, task=text, prompt=prompt, pictures=pictures)
        return agent, job
