"""Trust in project folders: agent files of an untrusted project run with restrictions.

Trusted folders are listed in the user's state folder. When an untrusted agent file is loaded, its
entries that need trust are removed and listed in a warning. Source: D-81, D-53, docs/safety.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

from axe_nb.agents.agent_tables import COMMON_PARAMS, DEFAULT_LIMITS
from axe_nb.agents.files import display_path, expand_home, hold_lock, read_text, reason, write_whole
from axe_nb.agents.user_config import is_own, skill_paths, state_dir
from axe_nb.errors import ConfigError
from axe_nb.text import list_some, one_line, printable, quote

VARIABLE = "AXE_NB_TRUST"  # environment variable that trusts every folder if it is set to 1
HEADER = "axe-nb trusted folders 1.0"
COMMANDS = {"run_command", "terminal"}
NEXT_STEP = "run `%axe trust`, or `axe-nb trust` in a shell"


def trusts_all() -> bool:
    return os.environ.get(VARIABLE, "").strip() == "1"


def trust_file() -> Path:
    return state_dir() / "trusted_folders"


def find_project(path: Path) -> Path:
    """Returns the real path of the project folder that an agent file belongs to.

    The project folder is the root of the git repository. If there is no repository, it is the
    parent of `axe/` or of the agents' folder. It is never the home folder or a folder above that.
    """
    return _list_folders(path)[-1]


def is_trusted(path: Path) -> bool:
    """True if the user trusts the project of an agent file, or if the file is the user's own.

    Trust in a folder above the project does not count: that folder may hold untrusted clones.
    """
    if trusts_all() or is_own(path):
        return True
    return not load_trusted().keys().isdisjoint(map(str, _list_folders(path)))


def remember_trust(entry: str) -> None:
    """Adds the real path of a trusted folder, or an approval by the user, to the trust file."""
    with hold_lock(trust_file()):  # another terminal may add to the list at the same time
        lines = [HEADER, *map(json.dumps, {**load_trusted(), entry: None})]
        write_whole(trust_file(), "\n".join(lines) + "\n", mode=0o600)


def trust_new_folder(path: Path) -> None:
    """Trusts the folder of an agent file before the file is written, if the folder is new or empty.

    The rest of the project stays untrusted, as it may be a clone with other agents.
    """
    top = _find_top(path)
    with suppress(OSError):
        is_new = not os.path.lexists(top) or not (top.is_symlink() or any(top.iterdir()))
        if is_new and not is_own(path):
            remember_trust(str(top))


def load_trusted() -> dict[str, None]:
    """Reads the list of trusted folders and approvals, oldest first; empty if there is no file."""
    path = trust_file()
    shown = display_path(path)
    try:
        if os.name == "posix" and path.stat().st_mode & 0o022:
            step = f"check it, then run chmod 600 {shown}"
            raise ConfigError("other users can change the list of trusted folders", hint=step)
        header, *lines = read_text(path).splitlines() or [""]
        if header != HEADER:
            raise ValueError("its format is unknown")
        return dict.fromkeys(str(json.loads(line)) for line in lines)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read the list of trusted folders: {reason(error)}",
            hint=f"delete {shown}, and trust the folders again",
        ) from None


def is_outside(path: Path, target: Path) -> bool:
    if os.name == "nt" and str(target)[:2] in ("\\\\", "//"):  # resolving it would log in there
        return True
    return not Path(os.path.realpath(target)).is_relative_to(find_project(path))


def check_link(path: Path) -> Path:
    """Resolves links in the path of an agent file.

    Raises ConfigError if the links lead out of a project that the user does not trust.
    """
    real = Path(os.path.realpath(path))
    if not is_trusted(path) and is_outside(path, real):
        raise _make_error(path, "is a link out of its project")
    return real


def restrict(table: dict[str, Any], path: Path) -> str:
    """Removes from an agent's table the entries that need trust; returns a warning.

    The warning is empty if nothing was removed. Raises ConfigError if the model is a script outside
    the project.
    """
    provider, _, model = _read_text(table, "model").partition("/")
    if provider == "script" and model:
        is_path = model.endswith(".toml")
        beside = path.parent.parent / "scripts" / f"{model}.toml"
        script = expand_home(model) if is_path else beside
        if (is_path or os.path.lexists(script)) and is_outside(path, script):
            raise _make_error(path, "uses a script outside its project")
    workdir, skill = _read_text(table, "workdir"), _read_text(table, "skill")
    places = skill_paths(skill, str(path))
    place = next(filter(os.path.lexists, places), places[0])
    is_refused = {
        "mcp_servers": bool(table.get("mcp_servers")),
        "allowed_hosts": bool(table.get("allowed_hosts")),
        "mode": table.get("mode") == "auto",
        "sandbox": table.get("sandbox", "auto") != "auto",
        "workdir": bool(workdir) and is_outside(path, expand_home(workdir)),
        "skill": bool(skill) and is_outside(path, place),
    }
    left_out = []
    for key in filter(is_refused.get, is_refused):
        del table[key]
        left_out.append('mode = "auto"' if key == "mode" else key)
    most = {key: limit for key, limit in asdict(DEFAULT_LIMITS).items() if limit}
    for name in ("permissions", "params", "limits"):
        entries: Any = table.get(name)
        for key, value in [*entries.items()] if isinstance(entries, dict) else ():
            if name == "permissions":
                needs_trust = value == "allow"
            elif name == "params":
                needs_trust = key not in COMMON_PARAMS or isinstance(value, (dict, list))
            else:
                needs_trust = key in most and isinstance(value, int) and not 0 < value <= most[key]
            if needs_trust:
                del entries[key]
                left_out.append(f"{name}.{key}")
    tools: Any = table.get("tools")
    for tool in [*tools] if isinstance(tools, list) else ():
        if isinstance(tool, str) and (tool in COMMANDS or "__" in tool):  # of an MCP server
            tools.remove(tool)
            left_out.append(tool)
    if not left_out:
        return ""
    names = dict.fromkeys(printable(one_line(name, 60)) for name in left_out)
    return (
        f"restricted, because you have not trusted {quote(find_project(path).name)}: "
        f"left out {list_some([*names], 8)}; to trust it, {NEXT_STEP}"
    )


def _make_error(path: Path, problem: str) -> ConfigError:
    return ConfigError(
        f"agent {quote(path.stem)} {problem}, {quote(find_project(path).name)}",
        hint=f"if you trust that folder, {NEXT_STEP}",
    )


def _find_top(path: Path) -> Path:
    """Returns the `axe/` folder for a file in `axe/agents/`, or else the file's own folder."""
    agents = Path(os.path.abspath(path)).parent  # noqa: PTH100 - without `..`, but with its links
    top = agents.parent if (agents.parent.name, agents.name) == ("axe", "agents") else agents
    return Path(os.path.realpath(top.parent), top.name)


def _list_folders(path: Path) -> list[Path]:
    """Returns the folders between an agent file and the root of its project, innermost first.

    The first is `axe/` or the agents' folder, the second its parent. If the parent is the home
    folder or lies above it, the real path of the first folder takes the parent's place.
    """
    top = _find_top(path)
    base = Path(os.path.realpath(top)) if _holds_home(top.parent) else top.parent
    above = list(takewhile(lambda folder: not _holds_home(folder), base.parents))
    for at, folder in enumerate((base, *above)):
        git = folder / ".git"
        # an empty `.git` is a placeholder that keeps a running command from creating a repository
        is_made = os.path.lexists(git / "HEAD") or (git.is_file() and git.stat().st_size > 2)
        # another user's repository does not count: anyone may create one in /tmp
        if is_made and git.stat().st_uid == folder.stat().st_uid:
            return [top, base, *above[:at]]
    return [top, base]


def _holds_home(folder: Path) -> bool:
    return Path(os.path.realpath(expand_home("~"))).is_relative_to(folder)


def _read_text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value.strip() if isinstance(value, str) else ""
