"""The only assembly: agents, settings and connections become a run; what a session remembers.

Source: product.md "Agent files" and "Python"; A-7.3-9, A-7.3-10, D-25.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import DEFINED, Agent
from axe_nb.agents.config import Config
from axe_nb.agents.names import check_name
from axe_nb.budget import Limits
from axe_nb.commands.overrides import Overrides
from axe_nb.connections import provider_for
from axe_nb.engine.loop import Env, Run
from axe_nb.engine.permissions import Consult
from axe_nb.errors import ConfigError
from axe_nb.events import Emit, RunResult
from axe_nb.messages import Usage
from axe_nb.text import quote, suggestion
from axe_nb.tools.tool import Job

AS_IT_IS = Overrides()

SIMPLE = [
    option.name
    for option in fields(Overrides)
    if option.name in {key.name for key in fields(Agent)} - {"params", "tools"}
]
"""Options that replace the key of the agent that has their name."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What one agent with one model has used in a session, as a root or below one."""

    runs: int = 0
    turns: int = 0
    usage: Usage = Usage()

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.runs + other.runs, self.turns + other.turns, self.usage + other.usage)


def ignore(_: object) -> None:
    """An `Emit` for those who want the result only."""


@dataclass
class Session:
    """What one Python process, one notebook, knows and keeps."""

    agents: dict[str, Agent] = field(default_factory=dict)
    """Agents defined in this session; they win over files."""
    conversations: dict[str, RunResult] = field(default_factory=dict)
    """Agent → the last run of it that was asked for here; what `--continue` goes on with."""
    last: RunResult | None = None
    """The last finished run, also one that failed or was interrupted."""
    spent: dict[tuple[str, str], Spent] = field(default_factory=dict)
    """(agent, model) → what its runs used, in order of first use."""
    texts: dict[str, str] = field(default_factory=dict)
    """Agent defined here → the TOML that it was written as, where it was."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Option → its value for runs that do not give it; `%config AxeMagics` writes it."""

    def overrides(self, given: Mapping[str, Any]) -> Overrides:
        """The overrides that keywords ask for, with this session's defaults.

        Raises:
            ConfigError: there is no such option, or it takes something else.
        """
        return Overrides.of(given, self.defaults)

    def define(self, agent: Agent, text: str = "") -> Agent:
        """Makes an agent known by its name, for `%%axe`, `run` and other agents' `sub_agents`.

        Args:
            text: the TOML that it was written as.
        """
        check_name(agent.name)
        self.agents[agent.name] = agent
        self.texts[agent.name] = text
        return agent

    def forget(self, name: str) -> None:
        """Undoes `define`: a file of that name counts again."""
        self.agents.pop(name, None)
        self.texts.pop(name, None)

    def find(self, name: str, agents_dir: str | None = None) -> Agent:
        """The agent of that name: of this session, else from a file.

        Raises:
            ConfigError: there is none, or its file is not right.
        """
        return self.agents.get(name) or Agent.from_file(name, agents_dir)

    async def prepare(
        self,
        agent: Agent | str,
        overrides: Overrides = AS_IT_IS,
        emit: Emit = ignore,
        consult: Consult | None = None,
    ) -> Run:
        """A run that has sent nothing yet; what a dry run shows.

        Raises:
            ConfigError: anything that is wrong beforehand.
        """
        found = self.find(agent, overrides.agents_dir) if isinstance(agent, str) else agent
        return await Run.prepare(overridden(found, overrides), self._env(overrides, emit, consult))

    async def ask(
        self,
        agent: Agent | str,
        prompt: str,
        overrides: Overrides = AS_IT_IS,
        emit: Emit = ignore,
        *,
        continue_from: RunResult | None = None,
        consult: Consult | None = None,
    ) -> RunResult:
        """The result of one run, however it ended (D-2).

        Args:
            agent: itself, or its name.
            prompt: blank = the task is in its instructions.
            overrides: what this run changes about the agent.
            emit: is told what happens.
            continue_from: an earlier result whose conversation goes on.
            consult: asks the person; None = nobody can be asked.

        Raises:
            ConfigError: anything that is wrong before a word is sent.
        """
        run = await self.prepare(agent, overrides, emit, consult)
        return await self.carry_out(run, prompt, overrides, continue_from)

    async def carry_out(
        self, run: Run, prompt: str, overrides: Overrides, continue_from: RunResult | None = None
    ) -> RunResult:
        """The result of a run that was prepared; this session remembers it."""
        history = continue_from.messages if continue_from else ()
        try:
            job = Job(run.agent, prompt, prompt, Limits(seconds=overrides.timeout))
            return await run.execute(job, history=history)
        finally:
            if run.result is not None:
                self.last = self.conversations[run.agent.name] = run.result
                for result in run.result.walk():
                    key = (result.agent, result.model)
                    own = Spent(1, result.turns, result.usage)
                    self.spent[key] = self.spent.get(key, Spent()) + own

    def conversation(self, agent: str, agents_dir: str | None = None) -> RunResult:
        """The agent's last run in this session.

        Raises:
            ConfigError: it has not run yet.
        """
        names = [agent]
        with contextlib.suppress(ConfigError):
            names.append(self.find(agent, agents_dir).name)  # a file may say another one (D-26)
        for name in names:
            if name in self.conversations:
                return self.conversations[name]
        raise ConfigError(
            f"nothing to continue: agent {quote(agent)} has not run here",
            hint=suggestion(agent, self.conversations) or "run it once without -c",
        )

    def _env(self, overrides: Overrides, emit: Emit, consult: Consult | None) -> Env:
        scripts = _script_dirs(overrides.agents_dir)
        return Env(
            load_agent=lambda name: self.find(name, overrides.agents_dir),
            provider_for=provider_for(Config.load(), scripts),
            emit=emit,
            consult=consult,
            tools=tuple(t for t in overrides.tools or () if not isinstance(t, str)),
            as_child=lambda child: _with_model(child, overrides.model_all),
        )


def overridden(agent: Agent, overrides: Overrides) -> Agent:
    """The agent with what this run changes about it."""
    changes = {name: value for name in SIMPLE if (value := getattr(overrides, name)) is not None}
    if overrides.model is None:
        agent = _with_model(agent, overrides.model_all)
    if overrides.tools is not None:
        changes["tools"] = overrides.tools  # tools that are objects travel with the agent
    if not changes and not overrides.params:
        return agent
    return replace(agent, params={**agent.params, **overrides.params}, **changes)


def _with_model(agent: Agent, model: str | None) -> Agent:
    return agent if model is None else replace(agent, model=model)


def _script_dirs(agents_dir: str | None) -> tuple[Path, ...]:
    """Folders that belong to a given agents folder and may hold scripts."""
    return (Path(agents_dir).expanduser().parent / "scripts",) if agents_dir else ()


session = Session(agents=DEFINED)
"""This process's session; every face uses it."""
