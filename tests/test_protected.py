"""Paths that no tool writes unasked, and paths that no tool reads."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from axe_nb.protected import (
    Places,
    find_read_protection,
    find_write_protection,
    fold_name,
    list_protected,
)

WRITING = """
axe/agents/lead.toml axe/scripts/lead.toml axe/skills/review/SKILL.md axe sub/axe/agents/lead.toml
.git/config .git/hooks/pre-commit .git sub/.git/config .hg/hgrc .svn/x .ssh/authorized_keys
.local/bin/git .npmrc .aws/credentials .docker/config.json
.ipython/profile_default/startup/a.py .jupyter/jupyter_notebook_config.py .config/fish/config.fish
.vscode/tasks.json .idea/workspace.xml .github/workflows/ci.yml .ci/run.sh sub/.vscode/tasks.json
.env .envrc .env.local sub/.env .bashrc .zshrc .profile sub/.bash_profile
x.pth sub/x.pth sitecustomize.py sub/sitecustomize.py usercustomize.py conftest.py tests/conftest.py
json.py re.py regex.py httpx.py json/__init__.py regex/__init__.py trio.py brotli.py
.GIT/config .Git/config AXE/agents/x.toml Conftest.py SITECUSTOMIZE.PY .ENV .BashRC X.PTH
.pdbrc .exrc .Rprofile .mcp.json sub/.mcp.json .claude/settings.json .cursor/mcp.json
.githooks/pre-commit .gitea/workflows/x.yml .forgejo/workflows/x.yml .travis.yml Jenkinsfile
jupyter_server_config.py jupyter_notebook_config.json ipython_config.py ipython_kernel_config.py
jupyter_server_config.d/x.json sub/jupyter_config.py .yarnrc.yml .gdbinit
sitecustomize/__init__.py sub/usercustomize/x.py
evil-1.0.dist-info/entry_points.txt sub/evil.egg-info/entry_points.txt
astroid.py colorama.py ctags.py click.py msgpack.py argcomplete.py thread.py
org/python/core.py java/lang.py astroid/node_classes.py Colorama/init.py
.pre-commit-config.yaml lefthook.yml .lefthook.toml lefthook-local.yaml .devcontainer.json
proj.code-workspace x.sublime-project .zed/settings.json .helix/languages.toml .windsurf/mcp.json
.gemini/settings.json .codex/config.toml .roo/mcp.json .kiro/settings/mcp.json .amazonq/mcp.json
.continue/config.yaml bitbucket-pipelines.yml .cirrus.yml appveyor.yml .appveyor.yml .drone.yml
azure-pipelines.yml .woodpecker.yaml .woodpecker/build.yml .gitlab/ci/x.yml .readthedocs.yaml
.Renviron .RData .octaverc startup.m .pnp.cjs .pnp.loader.mjs .pnpmfile.cjs bunfig.toml
.cargo/config.toml .pylintrc .mvn/extensions.xml .yarnrc .tool-versions mise.toml .mise.toml
mise.local.toml .mise/config.toml .vimrc .gvimrc .vim/plugin/x.vim .tmux.conf .bash_completion
.inputrc .screenrc .emacs .emacs.d/init.el .emacs.el .dir-locals.el .lldbinit .Xresources .psqlrc
.ocamlinit .bundle/config .rspec .hgrc sub/AGENTS.md CLAUDE.md opencode.json .aider.conf.yml
.lintstagedrc .lintstagedrc.json linkify_it.py keys/server.key id_rsa terraform.tfstate
git~1/config .git./config sub/HEAD
"""

FREE = """
README.md src/app.py notes.txt axes.md axe.md sub/regex.py sub/json.py json.txt data.json
src/json/__init__.py envelope.txt my.env git.md github/x.md .gitignore pth.txt app.pth.txt
org/notes.md sub/org/python/core.py config hooks/x sub/config my_config.py
report_of_today.py tests/test_app.py regex/notes.md json/data.csv pandas.csv header.html
emacs.md .emacsish mise.md demise.toml lefthook.md startup.py agents.md.txt ca.pem cargo/config.toml
pip.conf.md id_rsa.pub workspace.json codex/config.toml monkey.pem package.json Makefile
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
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.req("D-52")
@pytest.mark.parametrize("path", [*WRITING.split(), f"regex{EXTENSION_SUFFIXES[0]}"])
def test_writing_to_it_needs_approval(path: str, workdir: Path) -> None:
    assert find_write_protection(workdir / path, workdir)


@pytest.mark.req("D-52")
@pytest.mark.parametrize("path", FREE.split())
def test_ordinary_files_are_free(path: str, workdir: Path) -> None:
    assert find_write_protection(workdir / path, workdir) == ""


def test_what_git_obeys_beside_a_head_is_protected(workdir: Path) -> None:
    (workdir / "bare").mkdir()
    for path in ("bare/config", "bare/hooks/pre-commit", "bare/commondir"):
        assert find_write_protection(workdir / path, workdir) == ""
    (workdir / "bare" / "HEAD").touch()
    for path in ("bare/config", "bare/hooks/pre-commit", "bare/commondir"):
        assert find_write_protection(workdir / path, workdir)
    assert find_write_protection(workdir / "bare/notes.md", workdir) == ""


def test_a_projects_own_package_is_free_also_if_libraries_would_import_it(workdir: Path) -> None:
    (workdir / "click").mkdir()
    (workdir / "click" / "__init__.py").touch()
    assert find_write_protection(workdir / "click" / "core.py", workdir) == ""
    assert find_write_protection(workdir / "click" / "__init__.py", workdir)
    assert list(list_protected(workdir)) == [workdir / "click" / "__init__.py"]


def test_a_new_package_that_libraries_import_is_protected_as_a_whole(workdir: Path) -> None:
    (workdir / "java").mkdir()
    assert list(list_protected(workdir)) == [], "an empty folder"
    (workdir / "org" / "python").mkdir(parents=True)
    (workdir / "org" / "python" / "core.py").touch()
    (workdir / "trio").mkdir()
    assert list(list_protected(workdir)) == [workdir / "org"]
    for name in ("__init__.py", "core.py"):
        (workdir / "trio" / name).touch()
    assert list(list_protected(workdir)) == [workdir / "org", workdir / "trio"]
    assert find_write_protection(workdir / "trio" / "core.py", workdir)


@pytest.mark.req("D-52")
@pytest.mark.parametrize("path", READING.split())
def test_keys_are_not_read(path: str, workdir: Path) -> None:
    assert find_read_protection(workdir / path, workdir)


@pytest.mark.req("D-52")
@pytest.mark.parametrize("path", READABLE.split())
def test_other_protected_files_are_read(path: str, workdir: Path) -> None:
    assert find_read_protection(workdir / path, workdir) == ""


def test_the_settings_of_axe_are_protected_wherever_they_are(tmp_path: Path) -> None:
    config = tmp_path / "settings" / "axe"
    assert find_read_protection(config / "config.toml", tmp_path, config)
    assert find_read_protection(config / "agents" / "a.toml", tmp_path, config) == ""
    assert find_write_protection(config / "agents" / "a.toml", tmp_path, config=config)


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


def test_invisible_characters_and_wide_letters_hide_no_name() -> None:
    assert fold_name(".g\u200cit") == ".git"
    assert fold_name("\uff0egit") == ".git"
    assert fold_name(".git::$INDEX_ALLOCATION") == ".git"


def test_an_environment_inside_the_workdir_is_protected(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(workdir / ".venv"))
    assert find_write_protection(workdir / ".venv" / "bin" / "python", workdir)


def test_a_folder_on_the_import_path_is_protected_from_new_modules(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(workdir / "src")])
    assert find_write_protection(workdir / "src" / "regex.py", workdir)
    assert find_write_protection(workdir / "src" / "mine.py", workdir) == ""


def test_a_module_of_the_workdir_alone_is_free(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "helpers_of_mine.py").touch()
    monkeypatch.syspath_prepend(str(workdir))
    assert find_write_protection(workdir / "helpers_of_mine.py", workdir) == ""


def test_looking_for_a_module_imports_nothing(tmp_path: Path) -> None:
    """Also not one that lies on the path, whose import would leave a trace."""
    (tmp_path / "loud_one").mkdir()
    (tmp_path / "loud_one" / "__init__.py").write_text("print('imported')")
    code = (
        "import sys; from pathlib import Path; from axe_nb.protected import Places; "
        "print(Places(Path('/elsewhere')).has_module('loud_one'), 'loud_one' in sys.modules)"
    )
    path = {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n"
    assert not Places(tmp_path).has_module("loud_one")


def test_the_protected_ones_of_a_folder_are_listed(workdir: Path) -> None:
    for name in (".git", "src", "regex", "json"):
        (workdir / name).mkdir()
    for name in ("conftest.py", "app.py", "regex/__init__.py", "json/data.txt"):
        (workdir / name).touch()
    listed = [path.relative_to(workdir).as_posix() for path in list_protected(workdir)]
    assert listed == [".git", "conftest.py", "regex/__init__.py"]


@pytest.mark.req("D-52")
def test_places_are_resolved_once_for_a_folder(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a thousand names takes tens of milliseconds, not seconds."""
    for number in range(100):
        (workdir / f"module_{number}.py").touch()
        (workdir / f"folder_{number}").mkdir()
    (workdir / "json.py").touch()
    resolved: list[object] = []
    resolve = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: resolved.append(path) or resolve(path))
    assert list(list_protected(workdir)) == [workdir / "json.py"]
    assert len(resolved) < len(sys.path) + 10
