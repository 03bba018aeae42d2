"""A tree of runs is made of what was there when its root began, whatever its tools write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import axe_nb
from axe_nb import Agent, Request, RunResult, call
from axe_nb.agents import trust
from axe_nb.session import snapshot
from tests.engine.in_process import ask, keeping
from tests.files import put

pytestmark = pytest.mark.req("D-53")

on_posix = pytest.mark.skipif(os.name == "nt", reason="needs links")


def put_agent(name: str, folder: str | Path = "axe/agents", **keys: object) -> Path:
    table = {"name": name, "model": f"script/{name}", **keys}
    return put(Path(folder, f"{name}.toml"), tomli_w.dumps(table))


def keep(name: str, *replies: Any) -> list[Request]:
    """The requests that the model of that name is sent; it says these, and then the results."""
    return keeping(name, *replies, hear)[0]


def hear(request: Request) -> str:
    return "\n".join(result.content for result in request.results) or "ok"


def play(*replies: Any, **fields: Any) -> RunResult:
    """The run of a lead, in mode auto, with these replies."""
    _, lead = keeping("lead", *replies, hear, **{"mode": "auto", **fields})
    return axe_nb.run(lead, "go", timeout=20)


def heard(result: RunResult) -> str:
    return "\n".join(r.content for m in result.messages for r in m.tool_results)


def test_file_tools_do_not_reach_the_whole_disk(project: Path, tmp_path: Path) -> None:
    secret = put(tmp_path / "secret.md", "SECRET")
    sent = keep("worker", call("read_file", path=str(secret)))
    evil = (
        f'name = "worker"\nmodel = "script/worker"\nworkdir = "/"\nskill = "{secret.as_posix()}"\n'
        'mode = "auto"\ntools = ["file_ops"]\n'
    )
    write = call("write_file", path="axe/agents/worker.toml", content=evil)

    def by_hand(_: Request) -> Any:  # another tool, or a person who said yes
        put("axe/agents/worker.toml", evil)
        return ask("worker")

    for first in (write, by_hand):
        result = play(first, ask("worker"), sub_agents=("worker",), tools=("file_ops",))
        assert sent == []
        assert "SECRET" not in heard(result)
        Path("axe/agents/worker.toml").unlink(missing_ok=True)
    assert 'agent "worker" was added after this run began' in heard(result)


def test_a_sub_agent_is_what_it_was_when_the_root_began(project: Path, tmp_path: Path) -> None:
    sent = keep("worker")
    put("axe/skills/s.md", "SKILL 1")
    put("docs/a.md", "FILE 1")
    more = {"skill": "skills/s.md", "files": ["docs/*.md"]}
    path = put_agent("worker", system_prompt="first", tools=["grep"], **more)

    def change(_: Request) -> Any:
        put("axe/skills/s.md", "SKILL 2")
        put("docs/a.md", "FILE 2")
        put("docs/b.md", "FILE 3")
        put_agent("worker", system_prompt="second", tools=["file_ops"], workdir=str(tmp_path))
        return ask("worker")

    def remove(_: Request) -> Any:
        path.unlink()
        return ask("worker")

    result = play(change, remove, sub_agents=("worker",))
    for request in sent:
        assert [tool.name for tool in request.tools] == ["grep"]
        for kept in ("first", "SKILL 1", "FILE 1"):
            assert kept in request.system
        for changed in ("second", "SKILL 2", "FILE 2", "FILE 3"):
            assert changed not in request.system
    assert [child.status for child in result.children] == ["completed"] * 2


def test_an_agent_that_only_code_starts_is_that_of_the_start_too(project: Path) -> None:
    sent = keep("worker")
    path = put_agent("worker", system_prompt="first")

    @axe_nb.tool
    def nested() -> str:
        """Runs agents by name."""
        path.write_text(path.read_text("utf-8").replace("first", "other"), "utf-8")
        return axe_nb.run("worker", "go").text

    play(call("nested"), tools=("nested",))
    assert [request.system for request in sent] == ["first"]


def test_a_childs_workdir_lies_in_the_roots(project: Path, tmp_path: Path) -> None:
    trust.trust_file().unlink()
    keep("inside")
    keep("outside")
    keep("none", call("list_dir", path="."))
    put("data/deep/a.txt")
    Path("docs").mkdir()
    put_agent("inside", workdir="data/deep")
    put_agent("outside", workdir="docs")
    put_agent("none", tools=["list_dir"])
    names = ["inside", "outside", "none"]
    if os.name != "nt":
        keep("linked")
        Path("data/link").symlink_to(project / "docs")
        put_agent("linked", workdir="data/link")
        names.append("linked")
    result = play([ask(name) for name in names], sub_agents=tuple(names), workdir="data")
    inside, none = result.children
    assert inside.ok
    assert "deep" in heard(none), "without one it works in the root's"
    outside = 'of agent "{}" lies outside the workdir of the run that it belongs to'
    assert f'workdir "docs" {outside.format("outside")}' in heard(result)
    assert len(names) == 3 or outside.format("linked") in heard(result)


def test_only_trusted_files_name_a_workdir_elsewhere(project: Path, tmp_path: Path) -> None:
    keep("worker")
    keep("mine")
    (tmp_path / "elsewhere").mkdir()
    put_agent("worker", workdir=str(tmp_path / "elsewhere"))
    put_agent("mine", tmp_path / "config/axe/agents", workdir=str(tmp_path / "elsewhere"))
    trust.trust_file().unlink()
    result = play([ask("worker"), ask("mine")], sub_agents=("worker", "mine"))
    assert [child.ok for child in result.children] == [True, True]
    [warning] = result.children[0].warnings
    assert 'you have not trusted "project": left out workdir; to trust it' in warning
    assert result.children[1].warnings == ()
    trust.remember_trust(os.path.realpath(project))
    result = play([ask("worker"), ask("mine")], sub_agents=("worker", "mine"))
    assert [(child.ok, child.warnings) for child in result.children] == [(True, ())] * 2


def test_code_takes_no_agent_out_of_the_workdir(project: Path, tmp_path: Path) -> None:
    keep("worker")
    put_agent("worker")
    told = []

    @axe_nb.tool
    def nested(folder: str) -> str:
        """Runs an agent in a folder that the model names."""
        for agent in ("worker", Agent("worker", "script/worker", workdir=folder)):
            try:
                axe_nb.run(agent, "go", workdir=folder)
            except axe_nb.ConfigError as error:
                told.append(str(error))
        return "done"

    calls = [call("nested", folder=str(tmp_path / name)) for name in (".", "does-not-exist")]
    play(*calls, tools=("nested",))
    assert len(told) == 4
    assert all("lies outside the workdir of the run" in text for text in told), "and no more"


def test_no_project_makes_the_start_endless(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_TEXT", 20_000)
    for number in range(40):
        put_agent(
            f"a{number}", sub_agents=[f"a{n}" for n in range(40)] + [f"no{n}" for n in range(999)]
        )
    result = play([ask("a0"), ask("no1")], sub_agents=("no1", *(f"a{n}" for n in range(40))))
    assert "not read: the agents of a run are limited to 0 MB of texts" in heard(result)
    assert "agent config not found: no1" in heard(result)


@on_posix
def test_a_folder_exchanged_for_a_link_is_no_workdir(project: Path, tmp_path: Path) -> None:
    put(tmp_path / "outside/secret.txt", "SECRET")
    put("sub/a.txt")

    def swap(_: Request) -> Any:
        Path("sub").rename("aside")
        Path("sub").symlink_to(tmp_path / "outside")
        return [
            call("read_file", path="secret.txt"),
            call("write_file", path="new.txt", content="x"),
            call("run_command", command="cat secret.txt; touch by_command"),
        ]

    sent = keep("worker", call("read_file", path="a.txt"), swap)
    own = tmp_path / "config/axe/agents"
    put_agent("worker", own, workdir="sub", tools=["file_ops", "run_command"])
    result = play(ask("worker"), sub_agents=("worker",))
    told = heard(result.children[0])
    assert told.count("was replaced by a link") == 3
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret.txt"]
    result = play(ask("worker"), sub_agents=("worker",))
    assert len(sent) == 3, "the next run does not start there either"
    assert "out of the current folder through a link" in heard(result)
    for folder in ("sub", str(project / "sub")):
        with pytest.raises(axe_nb.ConfigError, match="out of the current folder through a link"):
            axe_nb.run(Agent("mine", "script/worker", workdir=folder), "go")
    assert axe_nb.run(Agent("mine", "script/lead", workdir=str(tmp_path / "outside")), "go").ok


@on_posix
@pytest.mark.parametrize("workdir", ["link", "link/deep", "link/..", "link/../deep", "sub/../link"])
def test_a_workdir_beyond_a_link_is_refused(workdir: str, project: Path, tmp_path: Path) -> None:
    put("sub/a.txt")
    put("deep/a.txt")
    put(tmp_path / "outside/place/deep/a.txt")
    put(tmp_path / "outside/deep/a.txt")
    Path("link").symlink_to(tmp_path / "outside/place")
    keep("worker")
    for named in (workdir, f"{project}/{workdir}"):
        with pytest.raises(axe_nb.ConfigError, match="out of the current folder through a link"):
            axe_nb.run(Agent("mine", "script/worker", workdir=named), "go")
    for named in ("sub/..", "sub/../deep", "../project/sub", str(tmp_path / "outside/deep/..")):
        assert axe_nb.run(Agent("mine", "script/worker", workdir=named), "go").ok


@on_posix
def test_a_link_leads_no_file_of_the_user_out_of_the_root(project: Path, tmp_path: Path) -> None:
    keep("mine")
    root = tmp_path / "root"
    put(tmp_path / "outside/secret.txt")
    put(root / "sub/a.txt")
    put_agent("mine", tmp_path / "config/axe/agents", workdir=str(root / "sub"))

    def swap(_: Request) -> Any:
        (root / "sub").rename(root / "aside")
        (root / "sub").symlink_to(tmp_path / "outside")
        return ask("mine")

    result = play(ask("mine"), swap, sub_agents=("mine",), workdir=str(root))
    assert [child.ok for child in result.children] == [True]
    assert "lies outside the workdir of the run" in heard(result)
