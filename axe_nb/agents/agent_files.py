"""Agent files: lookup by name, listing and scaffolding; the JSON Schema that one names.

A schema is a file beside it, or below its folder, and not behind a link: the file of an agent may
come with a project.
Source: A-5.6, B-1, B-12, D-81.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from axe_nb.agents.config import PROJECT_AGENTS, Config, agent_dirs, config_dir, is_own
from axe_nb.agents.files import expand_home, read_real_text, reason, write_new
from axe_nb.agents.names import check_name
from axe_nb.agents.trust import trust_new_folder
from axe_nb.errors import ConfigError
from axe_nb.text import one_line, quote, suggestion

SHELL_STEP = "create it with `axe-nb agents init {name}`"

_next_step = SHELL_STEP


def advise(step: str = SHELL_STEP) -> None:
    """Sets the next step shown in errors about an unknown agent; `{name}` is its name.

    A notebook sets its own, as its commands differ from a shell's.
    """
    global _next_step
    _next_step = step


def creation_step(name: str) -> str:
    """Returns the command that creates the agent `name`, as the person here would type it."""
    return _next_step.format(name=name)


def check_agents_dir(agents_dir: str | Path | None) -> None:
    """Raises ConfigError for a folder that was given for lookups and does not exist."""
    if agents_dir and not expand_home(agents_dir).is_dir():
        raise ConfigError(
            f"agents folder not found: {agents_dir}",
            hint="fix the path (--agents-dir, agents_dir), or create the folder",
        )


def find_file(name: str, agents_dir: str | Path | None = None, also: Iterable[str] = ()) -> Path:
    """Returns the file of the agent `name` in the first folder that has one.

    Args:
        also: further names to suggest, of agents without a file.

    Raises:
        ConfigError: not found; the hint names the nearest agent. Or there is no `agents_dir`.
    """
    check_name(name)
    check_agents_dir(agents_dir)
    for folder in agent_dirs(agents_dir):
        path = folder / f"{name}.toml"
        if os.path.lexists(path):
            return path
    known = [*list_agents(agents_dir), *also]
    bare = name.removesuffix(".toml")
    is_prompt = len(bare.split()) > 2
    step = "if this is the prompt, put the name of the agent before it"
    hint = suggestion(bare, known) or (step if is_prompt else creation_step(bare))
    if not agents_dir and (above := _find_above(bare)):
        hint = f"there is one in {above}; use --agents-dir {above}"
    raise ConfigError(f"agent config not found: {name}", hint=hint)


def _find_above(name: str) -> str:
    """Returns the nearest agents folder above the current folder that has the agent, if any."""
    try:
        here = Path.cwd()
    except OSError:  # it was deleted
        return ""
    folders = (folder / PROJECT_AGENTS for folder in here.parents)
    found = (folder for folder in folders if os.path.lexists(folder / f"{name}.toml"))
    return next((os.path.relpath(folder, here) for folder in found), "")


def has_file(name: str, agents_dir: str | Path | None = None) -> bool:
    """True if there is such an agent file, without the search for similar names."""
    files = (folder / f"{name}.toml" for folder in agent_dirs(agents_dir))
    return any(os.path.lexists(file) for file in files)


def hidden_file(path: Path) -> Path | None:
    """Returns the user's own agent file that a project's one hides; None if there is none."""
    own = config_dir() / "agents" / path.name
    is_of_project = path.parent == PROJECT_AGENTS and not is_own(path)
    return own if is_of_project and os.path.lexists(own) else None


def list_agents(agents_dir: str | Path | None = None) -> dict[str, Path]:
    """Returns name → file of every agent found, sorted by name; the first folder wins."""
    found: dict[str, Path] = {}
    for folder in agent_dirs(agents_dir):
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


SCAFFOLD = '''\
name = {name}
description = "A careful assistant"   # what it is for: agents that may call it are told
model = {model}   # provider/model: {providers}

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
    """Returns a commented starter file for an agent.

    Args:
        model: None = that of `first_model`.
    """
    check_name(name)
    return SCAFFOLD.format(
        name=quote(name),
        model=quote(model or first_model()),
        providers=", ".join(_settings().known),
    )


def first_model() -> str:
    """Returns the language model that fits the keys at hand best, for a new agent."""
    return _settings().first_model()


def _settings() -> Config:
    try:
        return Config.load()
    except ConfigError:  # `init` works without settings; a run will report the error
        return Config()


def init(name: str, agents_dir: str | Path | None = None) -> Path:
    """Writes a commented starter file for an agent and returns its path.

    Raises ConfigError if the file exists, or it cannot be written.
    """
    path = agent_dirs(agents_dir)[0] / f"{name}.toml"
    trust_new_folder(path)
    write_new(path, scaffold(name))
    return path


def read_schema(name: Any, agent_path: str) -> dict[str, Any]:
    """Reads the file of a JSON Schema.

    Args:
        name: the value of `output.schema`.
        agent_path: the agent's file; empty = an agent made in code, of the current folder.

    Raises:
        ConfigError: it does not lie there, or does not hold a JSON object.
    """
    if not isinstance(name, str) or not name.strip():
        raise _schema_error(name, "name a JSON file, or write the schema itself under [output]")
    folder = Path(agent_path).parent if agent_path else Path()
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts or name.startswith("~"):
        raise _schema_error(name, "it must be in the folder of the agent's file, or below it")
    return read_schema_file(Path(os.path.realpath(folder), *parts), name)


def read_schema_file(path: Path, name: str) -> dict[str, Any]:
    """Reads a JSON Schema from a file, through no link.

    Args:
        path: absolute.
        name: as it was given, for errors.

    Raises:
        ConfigError: it cannot be read, or does not hold a JSON object.
    """
    try:
        schema = json.loads(read_real_text(path))
    except OSError as error:
        raise _schema_error(name, reason(error)) from None
    except RecursionError:
        raise _schema_error(name, "it is nested too deeply") from None
    except ValueError as error:
        raise _schema_error(name, f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise _schema_error(name, "it does not contain a JSON object")
    return schema


def _schema_error(name: object, problem: str) -> ConfigError:
    return ConfigError(
        f"the schema {quote(one_line(str(name), 100))} cannot be used: {problem}",
        hint='agent files name it as schema = "answer.json" under [output], options as a path',
    )
