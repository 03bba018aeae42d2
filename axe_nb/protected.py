"""Protected files: paths that tools write only after approval of that path, and never read.

Other programs run some files without asking: a hook of git, a start-up file of the shell, a module
beside a notebook. Others hold keys. Both are recognised by name, whatever its case and spelling,
or by their place. Nothing is opened or imported here.
Source: D-52; issue 9.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Collection, Iterator
from contextlib import suppress
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path

FOLDERS = {
    "axe": "agents, scripts and skills are instructions for later runs",
    **dict.fromkeys(
        (".git", ".hg", ".svn"), "version control runs hooks and programs that are set here"
    ),
    ".ssh": "it controls logins to and from this machine",
    **dict.fromkeys((".ipython", ".jupyter"), "code in it runs when a notebook starts"),
    ".config": "programs read their settings from here",
    ".local": "programs of the user are here",
    **dict.fromkeys((".vscode", ".idea", ".devcontainer"), "editors run what is set here"),
    **dict.fromkeys((".github", ".ci", ".circleci", ".husky"), "automation runs what is set here"),
}
"""Name of a protected file or folder, at any depth → the reason."""

SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".logout", ".inputrc", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc",
    "profile.ps1", "microsoft.powershell_profile.ps1",
)  # fmt: skip
"""Start-up files of shells."""

FILES = {
    **dict.fromkeys(SHELL_FILES, "shells run it when they start"),
    **dict.fromkeys((".gitconfig", ".gitmodules"), "git runs programs that are set here"),
    "head": "it makes its folder a repository, in which git runs what `config` sets",
    ".gitlab-ci.yml": "automation runs what is set here",
    "conftest.py": "pytest runs it",
}
"""Name of a protected file, at any depth → the reason."""

AT_START = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python imports when it starts."""

OPTIONAL = {
    "brotli", "brotlicffi", "zstandard", "h2", "socksio", "trio", "curio", "sniffio", "outcome",
    "uvloop", "simplejson", "orjson", "ujson", "chardet", "charset_normalizer",
}  # fmt: skip
"""Modules that common libraries import if they exist; not installed, they are easy to replace."""

KEYS = "it may hold keys or passwords"

KEY_FILES = {
    ".ssh", ".aws", ".azure", ".gnupg", ".kube", ".password-store", ".netrc", "_netrc", ".pypirc",
    ".npmrc", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", ".boto", ".s3cfg",
    ".dockercfg", ".mozilla", ".thunderbird",
}  # fmt: skip
"""Names of files and folders, at any depth, that hold keys."""

KEY_PATHS = tuple(
    tuple(path.split("/"))
    for path in (
        ".config/axe/config.toml", ".config/gcloud", ".config/gh", ".config/hub", ".config/op",
        ".config/glab-cli", ".config/git/credentials", ".config/containers/auth.json",
        ".config/google-chrome", ".config/chromium", ".config/bravesoftware", ".config/huggingface",
        ".cache/huggingface/token", ".huggingface/token", ".docker/config.json",
        ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
        ".terraform.d/credentials.tfrc.json", ".jupyter/jupyter_server_config.json",
        ".local/share/jupyter/runtime", ".local/share/keyrings", ".local/share/kwalletd",
        "library/keychains", "library/cookies", "library/application support/google/chrome",
        "library/application support/firefox", "appdata/roaming/mozilla",
        "appdata/roaming/microsoft/credentials", "appdata/local/microsoft/credentials",
        "appdata/local/google/chrome",
    )
)  # fmt: skip
"""Paths of files and folders that hold keys, as folded names; below any folder."""


def find_write_protection(
    path: Path, workdir: Path, sources: Collection[Path] = (), config: Path | None = None
) -> str:
    """Returns the reason that writing to a path needs approval; empty if it does not.

    Args:
        path: a real path (absolute, links resolved); it need not exist.
        workdir: the real workdir that it lies in.
        sources: real files and folders that the running tree was loaded from.
        config: the real folder of the user's settings, which is protected as a whole.
    """
    if any(path == source or source in path.parents for source in sources):
        return "this run was loaded from it"
    if config is not None and path.is_relative_to(config):
        return "it belongs to the settings of axe"
    for root, is_project in _list_roots(workdir):
        if path.is_relative_to(root):
            names = [fold_name(name) for name in path.relative_to(root).parts]
            reason = _check_names(names if is_project else [n for n in names if n[:1] == "."])
            if reason:
                return reason
    return find_read_protection(path, workdir, config) or _check_imports(path, workdir)


def find_read_protection(path: Path, workdir: Path, config: Path | None = None) -> str:
    """Returns the reason that a path may not be read; empty if it may.

    Args:
        path: a real path (absolute, links resolved).
        workdir: the real workdir that it lies in.
        config: the real folder of the user's settings.
    """
    if config is not None and path == config / "config.toml":
        return KEYS
    names = [fold_name(name) for name in path.parts]
    below = [fold_name(name) for name in path.relative_to(workdir).parts]
    held = any(name in KEY_FILES for name in names) or any(n.startswith(".env") for n in below)
    return KEYS if held or any(_has_run(names, run) for run in KEY_PATHS) else ""


def list_protected(workdir: Path) -> Iterator[Path]:
    """Yields the protected files and folders that exist directly in a workdir.

    Of a package that replaces an installed one, the file that makes it a package.
    """
    with os.scandir(workdir) as entries:
        names = sorted(entry.name for entry in entries)
    for path in (workdir / name for name in names):
        if find_write_protection(path, workdir):
            yield path
        elif is_importable(path.name, workdir):
            files = (path / f"__init__{suffix}" for suffix in sorted(_SUFFIXES))
            yield from (file for file in files if os.path.lexists(file))


def fold_name(name: str) -> str:
    """Returns the name as the least strict file system compares it.

    Without case (macOS, Windows), ignorable characters (macOS), streams, and dots or blanks at the
    end (Windows).
    """
    folded = unicodedata.normalize("NFKC", name)
    folded = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Cc"))
    folded = folded.casefold().partition(":")[0].rstrip(" .")
    return ".git" if re.fullmatch(r"git~\d+", folded) else folded


def is_importable(name: str, workdir: Path) -> bool:
    """True if `import name` finds a module outside the workdir; nothing is imported."""
    if name in sys.stdlib_module_names or name in OPTIONAL:
        return True
    if not name.isidentifier():
        return False
    loaded = vars(sys.modules[name]).get("__file__") if name in sys.modules else None
    if isinstance(loaded, str) and not _resolve(loaded).is_relative_to(workdir):
        return True
    elsewhere = [p for p in sys.path if p and not _resolve(p).is_relative_to(workdir)]
    try:
        return PathFinder.find_spec(name, elsewhere) is not None
    except (ImportError, OSError, ValueError):
        return False


def _resolve(path: str) -> Path:
    return Path(os.path.realpath(path))


def _list_roots(workdir: Path) -> Iterator[tuple[Path, bool]]:
    """Yields the folders that names count from, and if all names below them do.

    A workdir can lie inside a protected folder. Of the names between home and the workdir, only
    hidden ones count: `~/axe` may be anything.
    """
    yield workdir, True
    home = _resolve(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises without one
    with suppress(OSError):  # the current folder was deleted
        here = _resolve(os.curdir)
        if here == home or not home.is_relative_to(here):
            yield here, True
    if home != Path(home.anchor):
        yield home, False


def _check_names(names: list[str]) -> str:
    for name in names:
        if reason := FOLDERS.get(name):
            return reason
        if name.startswith(".env"):
            return KEYS
    return _check_file(names[-1]) if names else ""


def _check_file(name: str) -> str:
    if name.endswith(".pth"):
        return "Python runs it when it starts"
    module = _module_of(name)
    if module in AT_START:
        return "Python runs it when it starts"
    return FILES.get(name, "")


def _check_imports(path: Path, workdir: Path) -> str:
    """Checks a path against the places that Python imports from."""
    prefix = _resolve(sys.prefix)
    if prefix.is_relative_to(workdir) and path.is_relative_to(prefix):
        return "it belongs to the Python that runs here"
    for folder in {workdir, _resolve(os.curdir), *map(_resolve, sys.path)}:
        if folder.is_relative_to(workdir) and path.is_relative_to(folder):
            names = path.relative_to(folder).parts
            module = _module_of(names[0]) if len(names) == 1 else ""
            if len(names) == 2 and _module_of(names[1]).casefold() == "__init__":
                module = names[0]
            if module and any(is_importable(m, workdir) for m in {module, module.casefold()}):
                return f"`import {module}` would run it instead of the installed module"
    return ""


def _module_of(name: str) -> str:
    """Returns the name of the module in a file; empty if it cannot be imported."""
    module, dot, suffix = name.partition(".")
    return module if dot and dot + suffix.casefold() in _SUFFIXES else ""


_SUFFIXES = frozenset(suffix.casefold() for suffix in (*all_suffixes(), ".pyc", ".pyd", ".so"))


def _has_run(names: list[str], run: tuple[str, ...]) -> bool:
    """True if the names of a path contain a run of names."""
    size = len(run)
    return any(tuple(names[i : i + size]) == run for i in range(len(names) - size + 1))
