"""Paths that no tool writes unasked, and paths that no tool reads."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from axe_nb.agents.protected import find_read_protection, find_write_protection

pytestmark = pytest.mark.req("D-83")

NAMED = """
axe/agents/lead.toml axe/scripts/lead.toml axe/skills/review/SKILL.md axe sub/axe/agents/lead.toml
.git/config .git/hooks/pre-commit .git sub/.git/config .hg/hgrc .svn/x .ssh/authorized_keys
.ipython/profile_default/startup/a.py .jupyter/jupyter_notebook_config.py .config/fish/config.fish
.vscode/tasks.json .idea/workspace.xml .github/workflows/ci.yml .ci/run.sh sub/.vscode/tasks.json
sub/.ipython/x sub/.jupyter/x sub/.config/x sub/.idea/x sub/.github/x sub/.ci/x sub/.hg/x sub/.svn/x
.env .envrc .env.local sub/.env .bashrc .zshrc .profile sub/.bash_profile sub/.zshenv sub/.inputrc
x.pth sub/x.pth sitecustomize.py sub/sitecustomize.py usercustomize.py conftest.py tests/conftest.py
sitecustomize/__init__.py sub/usercustomize/x.py
.GIT/config .Git/config AXE/agents/x.toml Conftest.py SITECUSTOMIZE.PY .ENV .BashRC X.PTH
git~1/config .git./config .git::$INDEX_ALLOCATION/config .g\u200cit/x
sub/.vscode\u200c/x sub/conftest.py. sub/\uff0egit/config
"""
"""Protected at any depth, whether they exist or not; `sub` shows that no other rule is at work."""

KEYS = """
.npmrc .aws/credentials .docker/config.json keys/server.key id_rsa terraform.tfstate sub/.yarnrc.yml
"""

NEW_MODULES = """
json.py re.py regex.py httpx.py json/__init__.py regex/__init__.py trio.py brotli.py mine.py
org/python/core.py java/lang.py src/app.py tests/deep/test_app.py Colorama/init.py mine.pyc REGEX.PY
my_config.py jupyter_server_config.py regex.py. re\u200cgex.py notes/__init__.py
"""

NEW_HIDDEN = """
.gitignore .pdbrc .mcp.json .claude/settings.json .githooks/pre-commit .pre-commit-config.yaml
.cargo/config.toml .vimrc .local/bin/git sub/repository/.mcp.json sub/repository/.husky/x
\uff0emcp.json
"""

FREE = """
README.md notes.txt axes.md axe.md sub/json.txt json.txt data.json envelope.txt my.env git.md
github/x.md pth.txt app.pth.txt org/notes.md config hooks/x sub/config regex/notes.md json/data.csv
pandas.csv header.html emacs.md mise.md agents.md.txt ca.pem cargo/config.toml pip.conf.md
id_rsa.pub workspace.json codex/config.toml monkey.pem package.json Makefile not-a-name.py
2024/x.py pkg/new.py pkg/deep/json.py pkg/json/__init__.py src/pkg/json.py src/regex.py
notes/.hidden notes/sub/.mcp.json sub/repository/x.md
"""

READING = """
.env .envrc sub/.env.local .ENV .ssh/id_rsa sub/.ssh/config .aws/credentials .netrc .npmrc .pypirc
.git-credentials .config/axe/config.toml .config/gh/hosts.yml .docker/config.json .kube/config
.gnupg/secring.gpg .pgpass Library/Keychains/login.keychain .local/share/keyrings/x .SSH/id_rsa
.git/config .git/modules/sub/config .GIT/Config .hg/hgrc .kaggle/kaggle.json kaggle.json
.streamlit/secrets.toml .claude/.credentials.json .codex/auth.json .gemini/oauth_creds.json id_rsa
keys/id_ed25519 id_ecdsa id_dsa server.key cert.p12 cert.pfx privkey.pem my-key.pem key.pem
pip.conf .my.cnf .vault-token .config/gcloud/x .azure/x .terraform.d/credentials.tfrc.json
.cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml .databrickscfg
.huggingface/token .cache/huggingface/token .wandb/settings .yarnrc .yarnrc.yml .Renviron
terraform.tfstate .bash_history .ipython/profile_default/history.sqlite .condarc .claude.json
"""

READABLE = """
README.md axe/agents/lead.toml .git/HEAD conftest.py .github/workflows/ci.yml environment.yml
config.toml docker/config.json .config/fish/config.fish .vscode/tasks.json ssh/notes.md
ca.pem fullchain.pem monkey.pem keys.md key.py id_rsa.pub .cargo/config.toml .m2/notes.md config
.claude/settings.json credentials.json secrets.toml .git/hooks/pre-commit tokens.json
"""


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which Python imports from, as in a kernel."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    return folder


@pytest.fixture
def project(workdir: Path) -> Path:
    """A workdir with a package, a folder of sources, and a repository in it."""
    for path in ("pkg/__init__.py", "src/pkg/app.py", "notes/day.md", "sub/repository/.git/HEAD"):
        (workdir / path).parent.mkdir(parents=True)
        (workdir / path).touch()
    return workdir


@pytest.mark.parametrize("path", [*NAMED.split(), *KEYS.split()])
def test_writing_to_a_protected_name_needs_approval(path: str, project: Path) -> None:
    protection = find_write_protection(project / path, project)
    assert protection
    assert "it is new" not in protection


@pytest.mark.parametrize("path", [*NEW_MODULES.split(), f"regex{EXTENSION_SUFFIXES[0]}"])
def test_a_new_module_or_package_needs_approval(path: str, workdir: Path) -> None:
    assert "it is new, and `import " in find_write_protection(workdir / path, workdir)
    (workdir / path).parent.mkdir(parents=True, exist_ok=True)
    (workdir / path).touch()
    assert find_write_protection(workdir / path, workdir) == ""


@pytest.mark.parametrize("path", NEW_HIDDEN.split())
def test_a_new_hidden_file_at_the_root_needs_approval(path: str, project: Path) -> None:
    assert "it is new, and programs obey" in find_write_protection(project / path, project)
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).touch()
    assert find_write_protection(project / path, project) == ""


@pytest.mark.parametrize("path", FREE.split())
def test_ordinary_files_are_free(path: str, project: Path) -> None:
    assert find_write_protection(project / path, project) == ""


def test_a_folder_that_holds_no_module_yet_is_a_new_package(workdir: Path) -> None:
    """Also if another call made the folder, or put a text into it."""
    (workdir / "org" / "python").mkdir(parents=True)
    (workdir / "org" / "notes.md").touch()
    assert "`import org`" in find_write_protection(workdir / "org/python/core.py", workdir)
    (workdir / "org" / "python" / "other.py").touch()
    assert find_write_protection(workdir / "org/python/core.py", workdir) == ""
    assert "`import org`" in find_write_protection(workdir / "org/__init__.py", workdir)


def test_new_modules_are_free_where_python_does_not_import_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_write_protection(tmp_path / "mine.py", tmp_path) == ""
    monkeypatch.chdir(tmp_path)  # as under the command, whose path has no current folder
    assert find_write_protection(tmp_path / "mine.py", tmp_path) == ""


@pytest.mark.parametrize("path", READING.split())
def test_keys_are_not_read(path: str, workdir: Path) -> None:
    assert find_read_protection(workdir / path, workdir)


@pytest.mark.parametrize("path", READABLE.split())
def test_other_protected_files_are_read(path: str, workdir: Path) -> None:
    assert find_read_protection(workdir / path, workdir) == ""


def test_what_axe_keeps_is_protected_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    agent = tmp_path / "settings/axe/agents/a.toml"
    trusted = tmp_path / "state/axe/trusted_folders"
    assert find_read_protection(tmp_path / "settings/axe/config.toml", tmp_path)
    assert find_read_protection(tmp_path / "state/axe/undo/1/a", tmp_path), "it may be of any file"
    for path in (agent, trusted):
        assert find_read_protection(path, tmp_path) == ""
        assert find_write_protection(path, tmp_path)


def test_what_the_tree_was_loaded_from_is_protected(workdir: Path) -> None:
    sources = {workdir / "team", workdir / "skill.md"}
    assert find_write_protection(workdir / "team" / "lead.toml", workdir, sources)
    assert find_write_protection(workdir / "skill.md", workdir, sources)
    assert find_write_protection(workdir / "teams.md", workdir, sources) == ""


def test_a_workdir_inside_a_protected_folder_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = tmp_path / "axe" / "agents"
    assert find_write_protection(inside / "lead.toml", inside)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir("/")
    assert find_write_protection(tmp_path / ".config" / "x" / "y", tmp_path / ".config" / "x")
    named = tmp_path / "axe" / "project"
    assert find_write_protection(named / "y", named) == "", "a home may have a folder of that name"


def test_an_environment_inside_the_workdir_is_protected(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(workdir / "env"))
    assert find_write_protection(workdir / "env" / "bin" / "python", workdir)
    assert find_write_protection(workdir / "environment.yml", workdir) == ""
    assert find_write_protection(workdir / "env" / "notes.md", workdir / "env")
    inner = workdir / "env" / "project"
    assert find_write_protection(inner / "notes.md", inner) == ""


def test_a_folder_on_the_import_path_is_protected_from_new_modules(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", [*sys.path, str(workdir / "src")])
    assert find_write_protection(workdir / "src" / "regex.py", workdir)
    assert find_write_protection(workdir / "src" / "mine" / "part.py", workdir)
    assert find_write_protection(workdir / "mine.py", workdir) == ""
