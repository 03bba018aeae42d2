"""Inheritance of sub-agents from their parents: permissions, limits, depth, time and folder.

Nothing below a run is laxer than the run itself (D-1, D-3, D-10, D-19, D-47, D-53). A copy of its
caller also inherits the agent: `copy_of_caller`.
"""

from __future__ import annotations

from dataclasses import replace

from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import MODES, Mode
from axe_nb.agents.names import parse_model
from axe_nb.agents.prompt import confine
from axe_nb.engine.clock import Clock
from axe_nb.engine.permissions import PermissionPolicy
from axe_nb.engine.plan import Plan
from axe_nb.engine.scope import HARD_DEPTH, DepthLimit, Env, RunScope
from axe_nb.errors import ConfigError
from axe_nb.results import name_run
from axe_nb.text import quote
from axe_nb.tools.tool import Job


def find_child(parent: Plan, job: Job, env: Env, id: str) -> tuple[Agent, Job]:
    """Returns the agent and the job of a child, as they are in this tree; raises ConfigError."""
    try:
        agent = env.agents.load(job.agent) if isinstance(job.agent, str) else job.agent
    except ConfigError as error:
        name = quote(f"{job.agent}")
        raise ConfigError(f"failed to load agent {name}: {error}") from None
    agent = env.as_child(agent)
    if env.fork:
        agent, job = env.fork.adapt(id, agent, job)
    agent = confine(agent, parent.briefing.workdir, env.workdir, env.defined)
    try:
        parse_model(agent.model)
    except ConfigError as error:
        raise ConfigError(f"invalid model for agent {quote(agent.name)}: {error}") from None
    return agent, job


def make_child_scope(
    parent: RunScope, agent: Agent, job: Job, env: Env, *, id: str, call_id: str, ahead: float
) -> RunScope:
    """Makes the scope of a child that was admitted; its clock starts now."""
    limits = job.limits.within(parent.limits)
    clock = Clock(limits.seconds, parent.clock.deadline, ahead, id)
    return RunScope(
        env=env, agent=agent, limits=limits,
        policy=make_child_policy(parent.policy, agent, job.mode, is_copy=job.is_copy),
        meter=parent.meter.child(name_run(agent.name, agent.model), agent.limits, agent.path),
        in_flight=parent.in_flight.below(agent.limits.max_in_flight),
        depth_limit=lower_depth(parent.depth_limit, agent), clock=clock, id=id, parent=parent.id,
        call_id=call_id, depth=parent.depth + 1,
        began=parent.began + clock.started - parent.clock.started,
    )  # fmt: skip


def lower_depth(above: DepthLimit, agent: Agent) -> DepthLimit:
    """Returns the depth limit below an agent, which can only lower it (D-3)."""
    own = agent.sub_agents_config.max_depth or HARD_DEPTH
    return replace(above, lowest=min(above.lowest, own))


def make_child_policy(
    parent: PermissionPolicy, agent: Agent, wish: Mode | None = None, *, is_copy: bool = False
) -> PermissionPolicy:
    """Makes the policy of a child: the strictest of the parent's mode, its own and `wish` (D-47).

    Decisions of the policy are never laxer than the parent's (`PermissionPolicy.above`).
    """
    is_stricter = agent.mode == "plan" or agent.is_restricted
    inherits = parent.agent.sub_agents_config.inherit_mode and not is_stricter
    own = parent.mode if inherits else min(parent.mode, agent.mode, key=MODES.index)
    mode = min(own, wish or own, key=MODES.index)
    owner = parent.agent if is_copy else agent
    return PermissionPolicy(owner, mode, parent, None if mode == own else "call")
