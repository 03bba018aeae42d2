"""The `Agent` class, and the lookup, listing and creation of agent files.

Source: A-5.*, A-E2.*, B-1, B-2, B-12, D-26, D-27, D-36, D-81.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from axe_nb.agents.agent_tables import (
    COMMON_PARAMS,
    DEFAULT_LIMITS,
    MODES,
    NO_CONFIG,
    AxeBudget,
    Mode,
    Retry,
    SubAgentsConfig,
    TreeLimits,
    check_params,
    check_sandbox,
    parse_servers,
    variable_problem,
)
from axe_nb.agents.files import (
    expand_home,
    read_real_text,
    read_text,
    reason,
    write_new,
    write_whole,
)
from axe_nb.agents.names import check_name, is_host_pattern, is_tool, name_of, own_tools
from axe_nb.agents.trust import NEXT_STEP, check_link, is_trusted, restrict, trust_new_folder
from axe_nb.agents.user_config import PROJECT_AGENTS, Config, agent_dirs, format_path, is_own
from axe_nb.conversion.toml_tables import (
    TOML_HINT,
    Source,
    WrongValue,
    build,
    check_choice,
    check_types,
    make_table,
    parse_toml,
    update_text,
)
from axe_nb.errors import ConfigError
from axe_nb.messages.model_table import suggest_model
from axe_nb.text import hide_in_tab, one_line, quote, suggestion

IGNORED = (
    "artifacts", "memory", "timeout", "retry.backoff", "retry.initial_delay_ms",
    "retry.max_delay_ms",
)  # fmt: skip
"""Agent-file keys of the Axe command line that axe_nb accepts but ignores (D-27)."""


@dataclass(frozen=True)
class Agent:
    """One agent: its instructions, model, tools and limits.

    The fields are the keys of agent files. Agents are immutable: `but(mode="plan")` returns a
    changed copy. `Agent.load(name)` returns an agent of this session, or loads an agent file.

    Raises:
        ConfigError: if a value is invalid.
    """

    required: ClassVar[tuple[str, ...]] = ("name", "model")
    """Keys whose values must not be blank."""

    __dir__ = hide_in_tab(
        "from_file", "is_restricted", "lacks_entries", "own_tools", "path", "required", "text",
        "warnings",
    )  # fmt: skip

    name: str
    """Required: name of the agent and of its file, `<name>.toml`."""
    model: str
    """Required: provider and model, as in anthropic/claude-sonnet-5-5 or ollama/llama3.2."""
    _: KW_ONLY
    description: str = ""
    """Purpose, for users and for models that may call the agent."""
    system_prompt: str = ""
    """Instructions sent with every request."""
    skill: str = ""
    """SKILL.md file to append to the system prompt, relative to `axe/` or the config folder."""
    files: tuple[str, ...] = ()
    """Globs, relative to the workdir, that select text files for the system prompt and pictures for
    the prompt."""
    workdir: str = ""
    """Folder for the agent's files and tools; empty for the current folder."""
    sub_agents: tuple[str, ...] = ()
    """Names of agents that the agent may call; any entry adds the tool call_agent."""
    tools: tuple[str, ...] = ()
    """Names of tools and toolsets to use; in Python also functions and Tool objects."""
    mode: Mode = "ask"
    """Default for tools that write: plan (denied), ask (after approval), auto (allowed)."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that fetch may reach without approval: `python.org`, `*.python.org` (subdomains), or
    `*` (all hosts, also for commands)."""
    sandbox: str = "auto"
    """Sandbox for commands: auto (the strongest that works here), off, or docker:IMAGE."""
    mcp_servers: tuple[Any, ...] | Mapping[str, Any] = ()
    """MCP servers: names of `[mcp_servers.NAME]` tables in `config.toml`, or the agent's own
    tables. If `tools` lists some tools of a server, as `NAME__tool`, the others are left out."""
    stream: bool = True
    """If true, responses are streamed when they are shown live or may take long."""
    vars: Mapping[str, Any] = field(default_factory=dict)
    """`[vars]`: values for `{{ name }}` in `system_prompt`; if empty, nothing is replaced."""
    params: Mapping[str, Any] = field(default_factory=dict, metadata={"keys": COMMON_PARAMS})
    """`[params]` for the model: temperature, max_tokens, thinking (off, low, medium, high, or a
    number of tokens), server_tools (run by the model's server); other keys are sent unchanged."""
    permissions: Mapping[str, str] = field(default_factory=dict)
    """`[permissions]`: allow, ask or deny, keyed by tool name; overrides the modes ask and auto."""
    output: Mapping[str, Any] = field(default_factory=dict)
    """`[output]`: JSON Schema of the answer, or `schema = "FILE.json"`, relative to the agent's
    file; empty for a text answer."""
    limits: TreeLimits = DEFAULT_LIMITS
    retry: Retry = Retry()
    sub_agents_config: SubAgentsConfig = NO_CONFIG
    own_tools: Mapping[str, Any] = field(default_factory=dict, repr=False, metadata={"toml": False})
    """Functions and Tool objects passed in `tools`, keyed by tool name."""
    path: str = field(default="", compare=False, metadata={"toml": False})
    """Path of the agent's file, which `save` rewrites; empty if the agent was created in code."""
    text: str = field(default="", repr=False, compare=False, metadata={"toml": False})
    """Text of the file that the agent was loaded from; empty if the agent was created in code."""
    warnings: tuple[str, ...] = field(default=(), compare=False, metadata={"toml": False})
    """Warnings from loading the agent's file, such as keys that were ignored."""
    is_restricted: bool = field(default=False, compare=False, metadata={"toml": False})
    """True if the agent's file belongs to an untrusted project. The agent's mode is then at most
    ask, even if an agent in mode auto calls this agent."""

    def __post_init__(self) -> None:
        if own := own_tools(self.tools):
            names = (name_of(one) if callable(one) or is_tool(one) else one for one in self.tools)
            object.__setattr__(self, "tools", tuple(names))
            object.__setattr__(self, "own_tools", {**self.own_tools, **own})
        check_types(self)
        for key in self.required:
            if not getattr(self, key).strip():
                missing = f"agent config missing required field: {key}"
                raise ConfigError(missing, hint=f'add {key} = "…"')
        check_choice(("mode",), self.mode, MODES)
        for host in self.allowed_hosts:
            if not is_host_pattern(host):
                step = "write a host without https://, path and port; *.python.org; or * for all"
                raise WrongValue(("allowed_hosts",), f"has an invalid entry {quote(host)}: {step}")
        check_sandbox(("sandbox",), self.sandbox)
        parse_servers(self.mcp_servers)
        for tool, permission in self.permissions.items():
            check_choice(("permissions", tool), permission, ("allow", "ask", "deny"))
        check_params(self.params)
        for name in self.vars:
            if problem := variable_problem(name):
                raise WrongValue(("vars", name), problem)
        if self.output.keys() == {"schema"}:
            object.__setattr__(self, "output", _read_schema(self.output["schema"], self.path))

    @classmethod
    def load(cls, name: str, agents_dir: str | Path | None = None) -> Agent:
        """Returns an agent defined in this session, or else loads the agent's file.

        Args:
            agents_dir: folder to search before `axe/agents/` and the config folder; by default
                `%config AxeMagics.agents_dir`.

        Raises:
            ConfigError: if the agent is not found or its file is invalid.
        """
        check_name(name)
        folder = agents_dir or DEFAULTS.get("agents_dir")
        return DEFINED.get(name) or cls.from_file(name, folder)

    @classmethod
    def from_file(cls, name: str, agents_dir: str | Path | None = None) -> Agent:
        """Loads an agent from its file, even if the session defines an agent of the same name.

        Raises:
            ConfigError: if the file is not found or invalid.
        """
        path = find_agent_file(name, agents_dir, also=DEFINED)
        try:
            text = read_real_text(check_link(path))
        except OSError as error:
            raise ConfigError(
                f"failed to read agent config {quote(name)}: {reason(error)}",
                place=f"in {format_path(path)}",
            ) from None
        agent = cls._parse(text, name, str(path), is_restricted=not is_trusted(path))
        own = agent_dirs()[-1] / path.name
        if path.parent != PROJECT_AGENTS or is_own(path) or not os.path.lexists(own):
            return agent
        warning = f"hides your own agent of the same name, {format_path(own)}"
        return replace(agent, warnings=(*agent.warnings, warning))

    @classmethod
    def from_toml(cls, text: str, *, name: str = "", path: str = "") -> Agent:
        """Parses an agent from TOML text.

        Args:
            name: the expected name; if the text has another name, the agent gets a warning (D-26).
            path: the agent's file, for messages and relative paths.

        Raises:
            ConfigError: if the TOML, a key or a value is invalid, or a required key is missing.
        """
        return cls._parse(text, name, path)

    @classmethod
    def _parse(cls, text: str, name: str, path: str, *, is_restricted: bool = False) -> Agent:
        source = Source(text, format_path(Path(path)) if path else "")
        try:
            table = parse_toml(text)
        except ValueError as error:
            called = f"agent config {quote(name)}" if name else "agent config"
            raise ConfigError(
                f"failed to parse {called}: {error}", hint=TOML_HINT, place=source.place()
            ) from None
        try:
            warnings = _remove_ignored_keys(table, name, source)
            if is_restricted and (left_out := restrict(table, Path(path))):
                warnings.append(left_out)
            return build(
                cls, {"name": "", "model": "", **table}, source, path=path,
                text=text if path else "", warnings=tuple(warnings), is_restricted=is_restricted,
            )  # fmt: skip
        except ConfigError as error:
            error.place = error.place or source.place(getattr(error, "key", ()))
            raise

    @property
    def lacks_entries(self) -> bool:
        """True if entries of the agent's file were left out because the project is not trusted."""
        return self.is_restricted and bool(restrict(parse_toml(self.text), Path(self.path)))

    def but(self, **changes: Any) -> Agent:
        """Returns a copy with changed values: `agent.but(system_prompt="Be brief.", mode="plan")`.

        Args:
            changes: new values of fields, as keyword arguments of the constructor.

        Raises:
            ConfigError: if a value is invalid.
        """
        name = changes.get("name", self.name)
        if self.path and name != self.name:  # `save` must not overwrite this agent's file
            beside = Path(self.path).parent / f"{name}.toml"
            changes = {"path": str(beside), **changes}
        return replace(self, **changes)

    def to_toml(self) -> str:
        """Formats the agent as TOML, leaving out values that equal their defaults.

        Raises:
            ConfigError: if TOML cannot express a value, such as None in `params`.
        """
        import tomli_w

        table = make_table(self)
        try:
            text = tomli_w.dumps(table, multiline_strings=True)
            text.encode()
            # tomli_w unifies line ends in multi-line strings
            return text if tomllib.loads(text) == table else tomli_w.dumps(table)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"agent {quote(self.name)} cannot be written as TOML: {error}"
            ) from None

    def save(self, agents_dir: str | Path | None = None) -> Path:
        """Writes the agent's file atomically and returns its path.

        The folder is `agents_dir` if given, otherwise the folder of the agent's file, or
        `./axe/agents/` for an agent without a file. If possible, an existing file keeps its
        comments and formatting, and only values that differ are rewritten.

        Raises:
            ConfigError: if the name is invalid, entries of the file were left out when the agent
                was loaded, or the file cannot be written.
        """
        check_name(self.name)
        folder = agent_dirs(agents_dir)[0]
        path = Path(self.path) if self.path and not agents_dir else folder / f"{self.name}.toml"
        if self.lacks_entries:
            raise ConfigError(
                f"agent {quote(self.name)} was loaded without some entries of its file",
                hint=f"trust its project before you save it: {NEXT_STEP}",
            )
        trust_new_folder(path)
        parse = partial(self.from_toml, name=self.name, path=str(path))
        table, text = make_table(self), ""
        with suppress(OSError, ConfigError, ValueError, RecursionError):  # or rewrites the file
            old = read_text(path)
            updated = update_text(old, make_table(parse(old)), table)
            if make_table(parse(updated)) == table:
                text = updated
        write_whole(path, text or self.to_toml())
        return path


class NoAgent(Agent):
    """Placeholder for the agent of a run that uses only a model; its name is empty."""

    required: ClassVar[tuple[str, ...]] = ("model",)


DEFINED: dict[str, Agent] = {}
"""Agents defined in this session, keyed by name; the session adds and removes them."""

DEFAULTS: dict[str, Any] = {}
"""Option defaults set by `%config AxeMagics`, keyed by option name; updated by the session."""


def _remove_ignored_keys(table: dict[str, Any], name: str, source: Source) -> list[str]:
    """Removes the keys in `IGNORED` from an agent's table, and converts `[budget]` to `[limits]`.

    Returns warnings about ignored keys, and about an agent name that differs from `name`.
    """
    ignored = []
    for dotted in IGNORED:
        above, _, key = dotted.rpartition(".")
        holder = table.get(above) if above else table
        if isinstance(holder, dict) and key in holder:
            del holder[key]
            ignored.append(dotted)
    if "budget" in table:
        budget = build(AxeBudget, table.pop("budget"), source, ("budget",))
        limits = table.setdefault("limits", {})
        if isinstance(limits, dict) and "max_total_tokens" not in limits:
            limits["max_total_tokens"] = budget.max_tokens
        else:
            ignored.append("budget.max_tokens")
    step = "; set a time limit with --timeout, in Python timeout=" if "timeout" in ignored else ""
    warnings = [f"ignored by axe_nb: {', '.join(ignored)}{step}"] if ignored else []
    own = table.get("name")
    if name and isinstance(own, str) and own.strip() and own != name:
        warnings.append(f"file {quote(name + '.toml')} contains the agent name {quote(own)}")
    return warnings


def find_place(agent: Agent, key: str, value: str) -> str:
    """Returns the file and line where an agent's `key` is or contains `value`; empty if absent."""
    if not agent.path or not agent.text:
        return ""
    written: Any = tomllib.loads(agent.text).get(key)
    if written != value and (isinstance(written, str) or value not in (written or ())):
        return ""
    path = (key, value) if isinstance(written, dict) else (key,)
    return Source(agent.text, format_path(Path(agent.path))).place(path, value)


def creation_step(name: str) -> str:
    return f"create it with `axe-nb agents init {name}`, in a notebook `%axe init {name}`"


def check_agents_dir(agents_dir: str | Path | None) -> None:
    if agents_dir and not expand_home(agents_dir).is_dir():
        raise ConfigError(
            f"agents folder not found: {agents_dir}",
            hint="fix the path (--agents-dir, agents_dir), or create the folder",
        )


def find_agent_file(
    name: str, agents_dir: str | Path | None = None, also: Iterable[str] = ()
) -> Path:
    """Returns the path of an agent's file. Raises ConfigError if there is no such file.

    The error suggests similar names among the agent files and the names in `also`.
    """
    check_name(name)
    check_agents_dir(agents_dir)
    for folder in agent_dirs(agents_dir):
        path = folder / f"{name}.toml"
        if os.path.lexists(path):
            return path
    bare = name.removesuffix(".toml")
    created = f"{creation_step(bare)}; register an Agent in a variable with axe_nb.define(agent)"
    hint = suggestion(bare, [*list_agents(agents_dir), *also]) or created
    if not agent_dirs(agents_dir)[0].is_dir():
        hint += "; the current folder has no folder axe/agents"
        folders = [
            Path(os.path.relpath(up, Path.cwd()), "axe", "agents") for up in Path.cwd().parents
        ]
        for at in (one.as_posix() for one in folders if (one / f"{bare}.toml").is_file()):
            hint = f'it is in {at}: %config AxeMagics.agents_dir = "{at}", or --agents-dir {at}'
    raise ConfigError(f"agent config not found: {name}", hint=hint)


def list_agents(agents_dir: str | Path | None = None) -> dict[str, Path]:
    """Returns all agent files by name, sorted; of equal names, only the first folder's counts."""
    found: dict[str, Path] = {}
    for folder in agent_dirs(agents_dir):
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


SCAFFOLD = '''\
name = {name}
description = "A careful assistant"   # its purpose, shown to agents that may call it
model = {model}   # provider/model

system_prompt = """
You are a careful assistant.
"""

# skill = "skills/review/SKILL.md"      # appended to the system prompt
# files = ["docs/**/*.md"]              # appended to the system prompt; relative to workdir
# workdir = "~/project"

# sub_agents = ["researcher", "writer"] # agents that this one may call
# tools = ["file_ops_readonly", "grep"]
# mode = "ask"                          # plan | ask | auto

# [params]
# temperature = 0.2
# max_tokens = 2048
# thinking = "low"                      # off | low | medium | high

# [sub_agents_config]
# max_depth = 3
# parallel = true
# timeout = 120
'''
"""Template of the file that `init` writes; valid TOML once filled in (A-5.6, B-12)."""


def scaffold(name: str, model: str | None = None) -> str:
    """Returns the text of a commented agent file; by default, its model is `first_model()`."""
    check_name(name)
    return SCAFFOLD.format(name=quote(name), model=quote(model or first_model()))


def first_model() -> str:
    """Suggests a model for a new agent.

    The model is from the only provider with an API key, or from Anthropic if there is no such
    provider or more than one.
    """
    with_key = []
    with suppress(ConfigError):  # `init` works without settings; a run will report the error
        config = Config.load()
        keyed = (name for name, info in config.known.items() if info.needs_key)
        with_key = [model for name in keyed if config.key_source(name)
                    if (model := suggest_model(name))]  # fmt: skip
    return with_key[0] if len(with_key) == 1 else suggest_model("anthropic")


def init_agent(name: str, agents_dir: str | Path | None = None) -> Path:
    path, text = agent_dirs(agents_dir)[0] / f"{name}.toml", scaffold(name)
    trust_new_folder(path)
    write_new(path, text)
    return path


def _read_schema(name: Any, agent_path: str) -> dict[str, Any]:
    """Reads the file set by `output.schema`, which must be in or below the agent's folder."""
    if not isinstance(name, str) or not name.strip():
        raise _make_schema_error(name, "name a JSON file, or write the schema under [output]")
    if Path(name).is_absolute() or ".." in Path(name).parts or name.startswith("~"):
        raise _make_schema_error(name, "it must be in the folder of the agent's file, or below it")
    folder = Path(agent_path).parent if agent_path else Path()
    return read_schema_file(Path(os.path.realpath(folder), *Path(name).parts), name)


def read_schema_file(path: Path, name: str) -> dict[str, Any]:
    """Reads a JSON Schema file without following links; `name` is the path to show in errors."""
    try:
        schema = json.loads(read_real_text(path))
    except (OSError, RecursionError, ValueError) as error:
        problem = reason(error) if isinstance(error, OSError) else f"it is not JSON: {error}"
        raise _make_schema_error(name, problem) from None
    if not isinstance(schema, dict):
        raise _make_schema_error(name, "it does not contain a JSON object")
    return schema


def _make_schema_error(name: object, problem: str) -> ConfigError:
    return ConfigError(
        f"the schema {quote(one_line(str(name), 100))} cannot be used: {problem}",
        hint='in an agent file, set schema = "answer.json" under [output]; an option takes '
        "a path, or in a notebook the name of a variable, such as V for V = list[Verdict]",
    )
