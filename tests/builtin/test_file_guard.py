"""Protected files, as the file tools meet them in a run: asked about one by one, or not written."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from axe_nb import call
from axe_nb.engine.person import Decision
from axe_nb.messages import ToolCall
from axe_nb.session.overrides import Overrides
from tests.calls import failure, tool
from tests.delegation.approvals import Person, run_with
from tests.delegation.copies import said
from tests.engine.in_process import agent, ask_session, stage

YES = Decision("yes")

PROTECTED = (
    "axe/agents/worker.toml", ".git/config", ".envrc", ".vscode/tasks.json", "sitecustomize.py",
    ".GIT/hooks/pre-commit", "regex.py", "x.pth", "conftest.py", ".env", "mine.py", "lib/mine.py",
    "org/python/core.py", "notes/__init__.py", ".mcp.json", ".claude/settings.json", "lead.md",
)  # fmt: skip


def write(path: str, content: str = "new\n") -> ToolCall:
    return call("write_file", path=path, content=content)


def edit(path: str) -> ToolCall:
    return call("edit_file", path=path, old_text="old", new_text="new")


def attempt(*calls: ToolCall, person: Person | None = None, **fields: Any) -> list[str]:
    tools = ("file_ops", "grep")
    lead = agent("lead", said(list(calls), "done"), tools=tools, **{"mode": "auto", **fields})
    result = run_with(person, lead)
    return [one.content for one in result.messages[-2].tool_results]


@pytest.mark.req("D-83")
def test_in_mode_auto_without_a_person_protected_files_are_not_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # as in a kernel
    (project / "lead.md").write_text("A skill.")
    results = attempt(*map(write, PROTECTED), skill=str(project / "lead.md"))
    for path, result in zip(PROTECTED, results, strict=True):
        assert result.startswith(f"Error: permission denied for write_file: {path} is protected: ")
        assert result.endswith(
            "and no one can be prompted here; "
            "approve it in a notebook or terminal, or do it yourself"
        )
        assert path == "lead.md" or not (project / path).exists()
    assert (project / "lead.md").read_text() == "A skill."


@pytest.mark.req("D-83")
@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_each_protected_path_needs_a_yes_of_its_own(project: Path, mode: Any) -> None:
    always, no = Decision("always"), Decision("no")
    person = Person(always, always, no)
    attempt(write("conftest.py"), write("x.pth"), write("y.pth"), person=person, mode=mode)
    assert [q.always for q in person.questions] == ["", "", ""]
    assert "conftest.py is protected: pytest runs it" in person.questions[0].reason
    assert (project / "conftest.py").exists()
    assert (project / "x.pth").exists()
    assert not (project / "y.pth").exists()


@pytest.mark.req("D-83")
def test_a_new_module_and_a_new_hidden_file_need_a_yes_and_are_free_afterwards(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "lib").mkdir()
    monkeypatch.setattr(sys, "path", ["lib", "", *sys.path])
    person = Person(YES, YES, YES, Decision("no"))
    asked = ("mine.py", "lib/mine.py", ".mcp.json", "lib/json.py")
    results = attempt(*map(write, asked), write("lib/data.json"), person=person)
    module, hidden = "`import {}` would find it", "programs obey hidden files at the project's root"
    reasons = (module.format("mine"), module.format("mine"), hidden, module.format("json"))
    assert [(q.arguments["path"], q.always, q.reason) for q in person.questions] == [
        (path, "", f"{path} is protected: it is new, and {reason}")
        for path, reason in zip(asked, reasons, strict=True)
    ]
    assert [result.split()[0] for result in results] == [*["Wrote"] * 3, "Error:", "Wrote"]
    assert not (project / "lib" / "json.py").exists()
    again = attempt(*(write(path, "again") for path in asked[:3]))
    assert [result.split()[0] for result in again] == ["Replaced"] * 3


@pytest.mark.req("D-83", "D-48")
def test_always_covers_the_files_of_one_folder_for_one_tool(project: Path) -> None:
    (project / "src").mkdir()
    person = Person(Decision("always"), Decision("no"), Decision("no"), Decision("no"))
    calls = [write("src/a.txt"), write("src/b.txt"), write("c.txt"), write("src/x.pth")]
    attempt(*calls, edit("src/a.txt"), person=person, mode="ask")
    assert [(q.tool, q.arguments["path"], q.always) for q in person.questions] == [
        ("write_file", "src/a.txt", "files in src/"),
        ("write_file", "c.txt", "files directly in the workdir"),
        ("write_file", "src/x.pth", ""),
        ("edit_file", "src/a.txt", "files in src/"),
    ]
    assert (project / "src" / "b.txt").exists()
    assert not (project / "c.txt").exists()


def add_links(project: Path) -> None:
    """Makes links with names that are protected or hold keys, to files with ordinary ones."""
    for name in ("envs/dev", "shared/fixtures.py", "editor/tasks.json", "fine.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("secret old\n")
    (project / ".env").symlink_to("envs/dev")
    (project / "conftest.py").symlink_to("shared/fixtures.py")
    (project / ".vscode").symlink_to("editor")
    (project / "a").symlink_to("b")
    (project / "b").symlink_to(".vscode")
    (project / "sub").mkdir()
    (project / "sub" / "conftest.py").symlink_to("../fine.txt")


@pytest.mark.req("D-83")
def test_the_names_of_links_protect_what_they_lead_to(project: Path) -> None:
    add_links(project)
    paths = {
        "conftest.py": "shared/fixtures.py is protected: pytest runs it (as conftest.py)",
        "shared/fixtures.py": "shared/fixtures.py is protected: pytest runs it (as conftest.py)",
        "a/tasks.json": "editor/tasks.json is protected: editors run what is set here (as ",
        "editor/new.json": "editor/new.json is protected: editors run what is set here (as ",
        "sub/conftest.py": "fine.txt is protected: pytest runs it (as sub/conftest.py)",
        "envs/dev": "envs/dev is protected: it may hold keys or passwords (as .env)",
    }
    results = attempt(*map(write, paths), write("fine.txt"), write("shared/x.txt"))
    for result, told in zip(results, paths.values(), strict=False):
        assert told in result
    assert [result.partition(" ")[0] for result in results[-2:]] == ["Replaced", "Wrote"]
    assert (project / "shared" / "fixtures.py").read_text() == "secret old\n"
    assert not (project / "editor" / "new.json").exists()


@pytest.mark.req("D-83")
def test_no_tool_reads_a_file_that_may_hold_keys_by_whatever_name(project: Path) -> None:
    add_links(project)
    for name in (".ssh/id_rsa", ".aws/credentials", ".git/config", "open.txt", "fine.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("secret old\n")
    (project / "harmless").symlink_to(".git")
    *refused, found = attempt(
        call("read_file", path=".env"),
        call("read_file", path="envs/dev"),
        call("grep", pattern="secret", path="envs/dev"),
        edit(".env"),
        call("grep", pattern="secret", path=".ssh/id_rsa"),
        edit("harmless/config"),
        call("grep", pattern="secret", glob="**"),
        person=Person(),
    )
    names = [*["envs/dev"] * 4, ".ssh/id_rsa", ".git/config"]
    for result, name in zip(refused, names, strict=True):
        told = f"Error: permission denied: tools cannot read {name}: it may hold keys"
        assert result.startswith(told)
    assert "open.txt:1:secret old\n" in found
    assert "envs" not in found
    assert "(not searched: 3 files that may hold keys)" in found


@pytest.mark.req("D-83")
def test_links_do_not_hide_a_protected_file_also_if_made_after_the_question(project: Path) -> None:
    """The tool looks at the file that it has opened, not at the path that was asked about."""
    (project / ".git").mkdir()
    (project / "sub").mkdir()
    (project / "link").symlink_to(".git")
    told = failure(tool("write_file"), project, path="link/config", content="evil")
    assert ".git/config is protected" in told
    assert list((project / ".git").iterdir()) == []
    for number in range(200):
        (project / f"link{number}").symlink_to("sub")
    assert "too many links lead to it" in attempt(write("sub/x.txt"))[0]


@pytest.mark.req("D-83")
def test_an_approved_file_is_written_and_what_it_held_is_not_told(project: Path) -> None:
    (project / ".env").write_text("KEY=hidden\n")
    person = Person(YES)
    [result] = attempt(write(".env", "KEY=\n"), person=person)
    assert result == "Replaced .env (5 bytes)"
    assert "hidden" not in person.questions[0].detail
    assert "it replaces a file whose content is hidden here" in person.questions[0].reason
    assert (project / ".env").read_text() == "KEY=\n"


@pytest.mark.req("D-83")
def test_the_files_of_the_running_tree_are_protected_wherever_they_are(project: Path) -> None:
    team = project / "team"
    team.mkdir()
    (team / "lead.toml").write_text('name = "lead"\nmodel = "script/lead"\ntools = ["file_ops"]\n')
    lead = agent("lead", said([write("team/lead.toml"), write("team/new.toml")], "done"))
    session = stage(lead).session
    session.forget("lead")
    overrides = Overrides(agents_dir=str(team), mode="auto")
    result = asyncio.run(ask_session(session, "lead", "go", overrides))
    answers = [one.content for one in result.messages[-2].tool_results]
    assert all("this run was loaded from it" in answer for answer in answers)
    assert not (team / "new.toml").exists()


@pytest.mark.req("D-83", "D-53")
def test_an_agent_cannot_write_itself_a_helper_that_reaches_further(project: Path) -> None:
    (project.parent / "secret").write_text("hidden")
    worker = 'name = "worker"\nmodel = "script/worker"\nworkdir = "/"\ntools = ["file_ops"]\n'
    made = write("axe/agents/worker.toml", worker)
    hired = call("call_agent", agent="worker", task="go")
    agent("worker", said(call("read_file", path=f"{project.parent}/secret"), "done"))
    lead = agent(
        "lead", said(made, hired, "done"), tools=("file_ops",), sub_agents=("worker",), mode="auto"
    )
    result = stage(lead).play()
    assert not (project / "axe" / "agents" / "worker.toml").exists()
    assert result.children == ()
    assert "hidden" not in str(result.messages)


@pytest.mark.req("D-83", "D-19")
def test_a_tool_that_is_denied_is_denied_before_its_guard_looks_at_anything(project: Path) -> None:
    [result] = attempt(write("../outside"), mode="plan")
    assert "it is not allowed in plan mode" in result


@pytest.mark.req("D-83")
def test_the_settings_with_the_keys_are_not_read(tmp_path: Path) -> None:
    config = tmp_path / "config" / "axe"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[providers.openai]\napi_key = 'secret'\n")
    told = failure(tool("read_file"), tmp_path, path="config/axe/config.toml")
    assert "tools cannot read " in told
