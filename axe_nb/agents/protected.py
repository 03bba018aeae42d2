"""Protected paths: files that tools write only after approval, and files that they never read.

Names are compared without regard to case and spelling variants. New modules that `import` would
find, and new hidden files at a project's root, need approval too. No file is opened or imported.
Source: D-83, docs/safety.md.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from inspect import getmodulename
from itertools import islice
from pathlib import Path

from axe_nb.agents.user_config import config_dir, state_dir

KEYS = "it may hold keys or passwords"

WRITTEN = {
    r"axe": "agents, scripts and skills are instructions for later runs",
    r"\.(git|hg|svn)": "version control runs hooks and programs that are set here",
    r"\.ssh": "it controls logins to and from this machine",
    r"\.(ipython|jupyter)": "code in it runs when a notebook starts",
    r"\.config": "programs read their settings from here",
    r"\.(vscode|idea)": "editors run what is set here",
    r"\.(github|ci)": "automation runs what is set here",
    r"\.env.*": KEYS,
    r"(site|user)customize(\..*)?|.*\.pth": "Python runs it when it starts",
    r"conftest\.py": "pytest runs it",
    r"\.bash(rc|_profile|_login|_logout|_aliases|_completion)|\.z(shrc|shenv|profile|login|logout)"
    r"|\.(k|mk|c|tc|xon)shrc|\.profile|\.log(in|out)|\.inputrc|(microsoft\.powershell_)?profile\.ps1":
        "shells run it when they start",
}  # fmt: skip
"""Reasons why writing needs approval, keyed by pattern for file and folder names at any depth."""

_KEY_PATHS = """
.ssh .aws .azure .gnupg .kube .password-store .netrc _netrc .pypirc .npmrc .git-credentials .pgpass
pgpass.conf .my.cnf .mylogin.cnf .vault-token .vault_pass .boto .s3cfg .dockercfg .mozilla
.thunderbird id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk kaggle.json pip.conf
pip.ini .condarc .databrickscfg .terraformrc rclone.conf .wandb .oci .fly .snowflake .modal.toml
.cdsapirc .ecmwfapirc .openai .anthropic .claude.json .htpasswd application_default_credentials.json
.bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history
.sqlite_history history.sqlite

.config/axe/config.toml .config/gcloud .config/gh .config/hub .config/op .config/glab-cli
.config/git/credentials .config/containers/auth.json .config/google-chrome .config/chromium
.config/bravesoftware .config/huggingface .config/rclone .config/github-copilot .config/openai
.config/sops .config/earthengine .config/wandb .config/kaggle .config/pip .config/doctl
.config/netlify .config/stripe .config/ngrok .cache/huggingface/token
.cache/huggingface/stored_tokens .huggingface/token .streamlit/secrets.toml
.claude/.credentials.json .codex/auth.json .gemini/oauth_creds.json .local/share/opencode/auth.json
.docker/config.json .cargo/credentials .cargo/credentials.toml .gem/credentials .composer/auth.json
.m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .dbt/profiles.yml
.subversion/auth .openml/config .pip/pip.conf .terraform.d/credentials.tfrc.json
.jupyter/jupyter_server_config.json .jupyter/jupyter_server_config.py
.jupyter/jupyter_notebook_config.json .jupyter/jupyter_notebook_config.py
.local/share/jupyter/runtime .local/share/keyrings .local/share/kwalletd library/keychains
library/cookies library/application_support/google/chrome library/application_support/firefox
appdata/roaming/mozilla appdata/roaming/microsoft/credentials appdata/local/microsoft/credentials
appdata/local/google/chrome
"""
KEY_PATHS = tuple(path.replace("_support", " support") for path in _KEY_PATHS.split())
"""Files and folders with keys or input history: case-folded paths relative to any folder."""

KEY_PATH = re.compile(f"/({'|'.join(map(re.escape, KEY_PATHS))})/")
KEY_ENDS = re.compile(r".*\.(key|p12|pfx|ppk|kdbx|jks|keystore)|(.*[^a-z])?(priv)?key\.pem")
"""Pattern for names of private key files; most other `*.pem` files are public certificates."""

NEEDED = re.compile(
    r"/(\.yarnrc(\.yml)?|\.renviron|terraform\.tfstate(\.backup)?"
    r"|\.git/(.*/)?config(\.worktree)?|\.hg/(.*/)?hgrc|\.bundle/(.*/)?config)/$"
)
"""Pattern for case-folded paths of files that may hold keys but that commands need to read."""


def find_write_protection(path: Path, workdir: Path, sources: Collection[Path] = ()) -> str:
    """Returns the reason why writing to a path needs approval, or an empty string.

    All paths are absolute with links resolved; `path` may not exist yet. `sources` are the files
    and folders that the current tree of runs was loaded from.
    """
    places = {
        _resolve(state_dir()): "it records which agents you trust",
        _resolve(config_dir()): "it belongs to axe's settings",
        **dict.fromkeys(sources, "this run was loaded from it"),
    }
    if (prefix := _resolve(sys.prefix)).is_relative_to(workdir):
        places[prefix] = "it belongs to the Python that runs here"
    reasons = (why for place, why in places.items() if path.is_relative_to(place))
    return (
        next(reasons, "")
        or _check_names(path, workdir)
        or find_read_protection(path, workdir)
        or _check_new(path, workdir)
    )


def find_read_protection(path: Path, workdir: Path) -> str:
    """Returns the reason why tools may not read a path, or an empty string."""
    is_kept = path.is_relative_to(_resolve(state_dir() / "undo"))  # old contents of any files
    is_secret = is_kept or is_hidden(path, workdir) or NEEDED.search(f"/{'/'.join(_fold(path))}/")
    return KEYS if is_secret else ""


def is_hidden(path: Path, workdir: Path) -> bool:
    """True if a path may hold keys and is therefore hidden even from commands in a sandbox."""
    if path == _resolve(config_dir()) / "config.toml":
        return True
    names = _fold(path)
    below, whole = names[len(workdir.parts) :], f"/{'/'.join(names)}/"
    is_key = any(name.startswith(".env") for name in below) or KEY_PATH.search(whole)
    return bool(is_key or (below and KEY_ENDS.fullmatch(below[-1])))


@lru_cache(10_000)
def fold_name(name: str) -> str:
    """Normalizes a file name; names that some file system treats as equal become equal."""
    # macOS ignores some characters, Windows stream names and trailing dots and blanks, both case
    folded = unicodedata.normalize("NFKC", name)
    folded = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Cc"))
    folded = folded.casefold().partition(":")[0].rstrip(" .")
    return ".git" if re.fullmatch(r"git~\d+", folded) else folded


def _fold(path: Path) -> list[str]:
    return [fold_name(name) for name in path.parts]


def _check_names(path: Path, workdir: Path) -> str:
    """Returns the reason why a path is protected by one of its names, or an empty string.

    Names above the project count only if they start with a dot, because a project may lie in a
    folder called `axe`. The project is the current folder; it is the workdir if the workdir lies
    elsewhere, or if the current folder contains the home folder.
    """
    # `~/axe` may be anything, so a current folder above the home folder is replaced by the workdir
    here, home = _find_here(), _resolve("~")
    is_root = here and workdir.is_relative_to(here) and here not in home.parents
    start = len((here if here and is_root else workdir).parts)
    names = [name for i, name in enumerate(_fold(path)) if i >= start or name.startswith(".")]
    found = (why for n in names for name, why in WRITTEN.items() if re.fullmatch(name, n))
    return next(found, "")


def _check_new(path: Path, workdir: Path) -> str:
    """Returns the reason why creating a file needs approval; empty if it exists or needs none."""
    if os.path.exists(path):  # noqa: PTH110 - Path.exists() may raise
        return ""
    here = _find_here()
    for place in (path, *path.parents):
        if place == workdir:
            break
        is_root = place.parent in (workdir, here) or os.path.lexists(place.parent / ".git")
        if is_root and re.match(r"\.[^.]", fold_name(place.name)):
            return "it is new, and programs obey hidden files at the project's root"
    module = getmodulename(fold_name(path.name)) or ""
    for folder in (_resolve(name) if name else here for name in sys.path if module):
        if folder is None or folder not in path.parents:
            continue
        names = path.relative_to(folder).parts
        top = fold_name(names[0]) if len(names) > 1 else module
        is_first = len(names) == 1 or (len(names) == 2 and module == "__init__")
        # a folder with modules is a package even without `__init__.py`; large ones are cut off
        below = islice(os.walk(folder / names[0]), 0 if is_first else 1000)
        has_more = any(getmodulename(name) for *_, files in below for name in files)
        if top.isidentifier() and not has_more:
            return f"it is new, and `import {top}` would find it"
    return ""


def _find_here() -> Path | None:
    with suppress(OSError):  # the folder was deleted
        return _resolve(os.curdir)
    return None


def _resolve(path: str | Path) -> Path:
    return Path(os.path.realpath(os.path.expanduser(path)))  # noqa: PTH111 - never raises
