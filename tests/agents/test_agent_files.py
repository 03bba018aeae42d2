"""Where agents are looked for; files are read within bounds, and written whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

import axe_nb
from axe_nb.agents.agent import Agent, list_agents, scaffold
from axe_nb.agents.files import read_text, write_whole
from axe_nb.errors import ConfigError


def put(folder: Path, name: str, model: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(f'name = "{name}"\nmodel = "{model}"\n', "utf-8")


@pytest.fixture
def three(project: Path, tmp_path: Path) -> Path:
    """Agent `a` in the given folder, in the project and in the config folder; the given one."""
    put(tmp_path / "given", "a", "p/given")
    put(project / "axe" / "agents", "a", "p/project")
    put(tmp_path / "config" / "axe" / "agents", "a", "p/config")
    return tmp_path / "given"


@pytest.mark.req("B-1")
def test_the_first_folder_with_the_file_wins(three: Path, project: Path, tmp_path: Path) -> None:
    assert Agent.load("a", three).model == "p/given"
    assert Agent.load("a", str(three)).model == "p/given"
    assert Agent.load("a").model == "p/project"
    (project / "axe" / "agents" / "a.toml").unlink()
    assert Agent.load("a").model == "p/config"


def test_a_given_folder_that_does_not_exist_is_not_passed_over(three: Path, project: Path) -> None:
    axe_nb.define(Agent(name="here", model="script/here"))
    for name in ("a", "here"):
        with pytest.raises(ConfigError) as caught:
            axe_nb.run(name, "x", agents_dir="gone")
        assert caught.value.lines() == [
            "agents folder not found: gone",
            "fix the path (--agents-dir, agents_dir), or create the folder",
        ]
    with pytest.raises(ConfigError, match="agents folder not found"):
        Agent.load("a", project / "gone")


def test_all_agents_are_listed_once_by_name(three: Path, project: Path, tmp_path: Path) -> None:
    put(project / "axe" / "agents", "z", "p/m")
    put(tmp_path / "config" / "axe" / "agents", "b", "p/m")
    (three / "notes.md").write_text("no agent", "utf-8")
    assert list(list_agents(three)) == ["a", "b", "z"]
    assert list_agents(three)["a"] == three / "a.toml"
    assert list_agents()["a"] == Path("axe/agents/a.toml")


@pytest.mark.req("A-5.6", "B-12")
def test_the_scaffold_is_an_agent_and_shows_the_delegation_settings() -> None:
    text = scaffold("lead")
    assert "# [sub_agents_config]\n# max_depth = 3\n# parallel = true\n# timeout = 120" in text
    agent = Agent.from_toml(text, name="lead")
    assert (agent.name, agent.model) == ("lead", "anthropic/claude-sonnet-5-5")
    assert agent.warnings == ()
    # every line that is commented out is right
    agent = Agent.from_toml("\n".join(line.removeprefix("# ") for line in text.splitlines()))
    assert agent.sub_agents_config.timeout == 120
    assert agent.params == {"temperature": 0.2, "max_tokens": 2048, "thinking": "low"}


on_posix = pytest.mark.skipif(os.name == "nt", reason="Windows has neither modes nor fifos")


@on_posix
@pytest.mark.timeout(5)
def test_what_has_no_end_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a file"):
            read_text(path)


def test_a_reader_sees_the_old_or_the_new_text_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "a"
    texts = ["a" * 200_000, "b" * 200_000]
    write_whole(path, texts[0])
    seen: set[str] = set()

    def read() -> None:
        for _ in range(200):
            seen.add(path.read_text("utf-8"))

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(100):
        write_whole(path, texts[turn % 2])
    reader.join()
    assert seen <= set(texts)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@on_posix
def test_a_link_stays_a_link_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old", "utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text("utf-8") == "new"
