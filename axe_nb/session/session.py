"""The only assembly: agents, settings and connections become a run; what a session remembers.

Source: product.md "Agent files" and "Python"; A-7.3-9, A-7.3-10, D-25.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from axe_nb.agents.agent import DEFINED, Agent
from axe_nb.agents.config import Config
from axe_nb.agents.names import check_name
from axe_nb.commands.overrides import Overrides
from axe_nb.connections import provider_for
from axe_nb.engine.permissions import AskPerson
from axe_nb.engine.plan import Plan, make_plan
from axe_nb.engine.scope import Env, RunScope
from axe_nb.errors import ConfigError
from axe_nb.events import Emit, RunResult
from axe_nb.limits import Limits
from axe_nb.messages import Usage
from axe_nb.scripting.lookup import ScriptFunction, functions
from axe_nb.session.runs import RunHandle, RunRequest
from axe_nb.text import quote, suggestion
from axe_nb.toolbox import SESSION
from axe_nb.tools.registry import ToolTable
from axe_nb.tools.tool import Job

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
    tools: ToolTable = field(default_factory=lambda: SESSION)
    """Tools that `@axe_nb.tool` made; a decorator knows no session, so all of a process share
    them."""
    scripts: dict[str, ScriptFunction] = field(default_factory=lambda: functions)
    """Name → model that `@axe_nb.script` made; shared like the tools."""
    _remembering: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def snapshot(self) -> dict[str, Any]:
        """All that is known and kept, for `restore`."""
        return {"last": self.last, **{name: table.copy() for name, table in self._tables().items()}}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Goes back to a snapshot; whoever holds one of the tables sees it too."""
        self.last = snapshot["last"]
        for name, table in self._tables().items():
            table.clear()
            table.update(snapshot[name])

    def clear(self) -> None:
        """Forgets all that was defined and run."""
        self.last = None
        for table in self._tables().values():
            table.clear()

    def _tables(self) -> dict[str, dict[str, Any]]:
        tables = {key.name: getattr(self, key.name) for key in fields(self)}
        tables["tools"] = self.tools.tools
        return {name: table for name, table in tables.items() if isinstance(table, dict)}

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

    def start(self, request: RunRequest) -> RunHandle:
        """The handle of a run; a face runs it, and this session remembers its result."""
        return RunHandle(request, self)

    async def plan(
        self, request: RunRequest, emit: Emit = ignore, ask_person: AskPerson | None = None
    ) -> Plan:
        """A run that has sent nothing yet; a dry run prints it.

        Args:
            request: the run as it was asked for.
            emit: is told what happens.
            ask_person: asks the person; None = nobody can be asked.

        Raises:
            ConfigError: invalid configuration.
        """
        job = self.job(request)
        assert isinstance(job.agent, Agent)
        env = self._env(request.overrides, emit, ask_person)
        return await make_plan(RunScope.root(job.agent, job.limits, env), job)

    def job(self, request: RunRequest) -> Job:
        """The task of a run, or of a child that `axe_nb.run` starts in a tool (D-57).

        Raises:
            ConfigError: there is no such agent, or its file is not right.
        """
        asked, overrides, earlier = request.agent, request.overrides, request.continue_from
        found = self.find(asked, overrides.agents_dir) if isinstance(asked, str) else asked
        return Job(
            apply_overrides(found, overrides),
            request.prompt,
            request.prompt,
            Limits(seconds=overrides.timeout),
            mode=overrides.mode,
            history=earlier.messages if earlier else (),
        )

    def remember(self, result: RunResult) -> None:
        """Notes a finished root run: the last one, its conversation, its tokens."""
        with self._remembering:
            self._remember(result)

    def _remember(self, result: RunResult) -> None:
        self.last = self.conversations[result.agent] = result
        for one in result.walk():
            key = (one.agent, one.model)
            own = Spent(1, one.turns, one.usage)
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

    def _env(self, overrides: Overrides, emit: Emit, ask_person: AskPerson | None) -> Env:
        scripts = _script_dirs(overrides.agents_dir)
        return Env(
            load_agent=lambda name: self.find(name, overrides.agents_dir),
            provider_for=provider_for(Config.load(), scripts),
            emit=emit,
            ask_person=ask_person,
            tools=tuple(t for t in overrides.tools or () if not isinstance(t, str)),
            as_child=lambda child: _with_model(child, overrides.model_all),
        )


def apply_overrides(agent: Agent, overrides: Overrides) -> Agent:
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
