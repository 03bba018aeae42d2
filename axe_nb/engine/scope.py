"""Where in a tree a run stands, and what it shares with the runs around it.

Source: D-1, D-3, D-10, D-19, D-59; house style §3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from axe_nb.agents.agent import Agent
from axe_nb.clock import Clock
from axe_nb.engine.permissions import AskPerson, PermissionPolicy
from axe_nb.engine.toolset import DepthLimit
from axe_nb.events import Emit
from axe_nb.limits import Limits, UsageMeter
from axe_nb.messages import ToolCall
from axe_nb.providers.base import Provider
from axe_nb.tools.tool import Job, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """The things that a whole tree of runs shares."""

    load_agent: Callable[[str], Agent]
    """Name → agent. Raises ConfigError."""
    provider_for: Callable[[str, str], Provider]
    """(provider, model) -> the provider; its connections are shared. Raises ConfigError."""
    emit: Emit
    tools: Sequence[Tool] = ()
    """Tools handed to this run beside those that names stand for."""
    ask_person: AskPerson | None = None
    """Asks the person; None = nobody can be asked."""
    as_child: Callable[[Agent], Agent] = lambda agent: agent
    """Agent → as it runs below another one in this tree (`--model-all`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """One run's place in the tree; its conversation, its calls and its children work within it."""

    env: Env
    agent: Agent
    """Who runs, with all that this run changes about it."""
    limits: Limits
    policy: PermissionPolicy
    meter: UsageMeter
    depth_limit: DepthLimit
    clock: Clock
    id: str = "0"
    """`0` is the root, `0.2` the child of its second call (D-59)."""
    parent: str = ""
    """Place of the run that delegated; empty for a root."""
    call_id: str = ""
    """The parent's call; empty for a root."""
    depth: int = 0

    @classmethod
    def root(cls, agent: Agent, limits: Limits, env: Env) -> RunScope:
        """The top of a tree; its clock starts now."""
        return cls(
            env=env,
            agent=agent,
            limits=limits,
            policy=PermissionPolicy(agent, agent.mode),
            meter=UsageMeter(agent.name, agent.limits),
            depth_limit=DepthLimit(root=agent.sub_agents_config.max_depth),
            clock=Clock(limits.seconds),
        )

    def child(self, agent: Agent, job: Job, *, call: ToolCall, key: str, ahead: float) -> RunScope:
        """The scope of a child; its clock starts now.

        Args:
            agent: the child.
            job: what it is to do.
            call: the call that starts it.
            key: tells it from its siblings: the number of its call, and more if the call has
                several children.
            ahead: virtual seconds that have passed already.
        """
        limits = job.limits.within(self.limits)
        return RunScope(
            env=self.env,
            agent=agent,
            limits=limits,
            policy=PermissionPolicy.below(self.policy, agent, job.mode, is_copy=job.is_copy),
            meter=UsageMeter(agent.name, agent.limits, self.meter),
            depth_limit=self.depth_limit.lowered(agent),
            clock=Clock(limits.seconds, self.clock.deadline, ahead),
            id=f"{self.id}.{key}",
            parent=self.id,
            call_id=call.id,
            depth=self.depth + 1,
        )
