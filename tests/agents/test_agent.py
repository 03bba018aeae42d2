"""An agent as a value: what it may hold, how it is written as TOML, read back and saved."""

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import axe_nb
from axe_nb.agents.agent import Agent
from axe_nb.agents.agent_tables import ChildBudget, Retry, SubAgentsConfig, TreeLimits
from axe_nb.errors import ConfigError
from axe_nb.session.session import Session, session
from tests.files import put

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
filled = text.filter(str.strip)
names = st.lists(text, max_size=3).map(tuple)
lines = st.text("ab\"'\\\r\n\t ", max_size=30)
number = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1)
param = st.recursive(
    text | number | st.booleans(), lambda v: st.lists(v) | st.dictionaries(text, v), max_leaves=5
)
budgets = st.builds(
    ChildBudget, max_tool_calls=st.integers(1, 10**6), max_tokens=st.integers(1, 10**6),
    timeout_ms=st.integers(5000, 10**7),
)  # fmt: skip
configs = st.builds(
    SubAgentsConfig, enabled=st.booleans(), max_depth=st.integers(0, 5), parallel=st.booleans(),
    timeout=st.floats(0, 1e6), ask=st.sampled_from(["deny", "person"]),
    max_concurrent=st.integers(0, 99), max_turns=st.integers(1, 50),
    output_limit=st.integers(1, 10**6), inherit_mode=st.booleans(), budget=budgets,
)  # fmt: skip
agents = st.builds(
    Agent,
    name=filled, model=filled, description=text, system_prompt=lines,
    skill=text, files=names, workdir=text, sub_agents=names, tools=names,
    mode=st.sampled_from(["plan", "ask", "auto"]), params=st.dictionaries(text, param, max_size=3),
    permissions=st.dictionaries(text, st.sampled_from(["allow", "ask", "deny"]), max_size=2),
    limits=st.builds(
        TreeLimits, max_requests=st.integers(0, 9), max_calls_per_reply=st.integers(0, 10**9)
    ),
    retry=st.builds(Retry, st.integers(0, 9)), sub_agents_config=configs,
)  # fmt: skip


@pytest.mark.req("B-12", "A-5.1", "A-5.2", "A-5.3")
@settings(deadline=None)
@given(agents)
def test_an_agent_written_as_toml_reads_back_equal(agent: Agent) -> None:
    assert Agent.from_toml(agent.to_toml()) == agent


@pytest.mark.req("A-5.1", "A-E2.2")
def test_what_is_not_said_has_the_documented_default() -> None:
    agent = Agent.from_toml('name = "a"\nmodel = "p/m"\nsub_agents = ["b"]')
    assert agent == Agent(
        name="a", model="p/m", description="", system_prompt="", skill="", files=(), workdir="",
        sub_agents=("b",), tools=(), mode="ask", params={}, permissions={},
        limits=TreeLimits(
            max_requests=1000, max_calls_per_reply=256, max_in_flight=200, max_total_tokens=0
        ),
        retry=Retry(max_retries=None),
        sub_agents_config=SubAgentsConfig(
            enabled=True, max_depth=0, parallel=True, timeout=0, max_concurrent=0, max_turns=10,
            output_limit=4096, inherit_mode=True, ask="deny",
            budget=ChildBudget(max_tool_calls=15, max_tokens=8192, timeout_ms=60000),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("value", [None, {"deep": [None]}, "\ud800"])
def test_what_toml_cannot_say_is_refused_when_written(value: object, project: Path) -> None:
    agent = Agent(name="a", model="p/m", params={"stop": value})
    with pytest.raises(ConfigError, match=r'^agent "a" cannot be written as TOML: '):
        agent.save()
    assert list((project / "axe" / "agents").iterdir()) == []


WRONG = [
    ("name", 3, "name must be a string"),
    ("system_prompt", b"x", "system_prompt must be a string"),
    ("skill", Path("x"), "skill must be a string"),
    ("sub_agents", {"a": 1}, "sub_agents must be a list of strings"),
    ("tools", "abc", "tools must be a list of strings"),
    ("tools", ["a", 1], "tools must be a list of strings"),
    ("mode", 1, "mode must be a string"),
    ("mode", "Auto", 'mode must be plan, ask or auto, not "Auto"'),
    ("params", {1: 2}, "params must be a table"),
    ("params", {"a": float("nan")}, "params.a must be valid JSON: no dates, nan or inf"),
    ("params", {"a": object()}, "params.a must be valid JSON: no dates, nan or inf"),
    ("permissions", {"grep": True}, "permissions must be a table of strings"),
    ("permissions", {"grep": "yes"}, 'permissions.grep must be allow, ask or deny, not "yes"'),
    ("limits", {"max_requests": "1"}, "limits.max_requests must be a whole number"),
    ("limits", {"max_total_tokens": -1}, "limits.max_total_tokens must be non-negative"),
    ("retry", 3, "retry must be a table"),
    ("retry", {"max_retries": -1}, "retry.max_retries must be non-negative"),
]


CONFIG = [
    ("enabled", 1, "enabled must be true or false"),
    ("max_depth", "3", "max_depth must be a whole number"),
    ("max_depth", 2.0, "max_depth must be a whole number"),
    ("max_depth", 6, "max_depth cannot exceed 5"),
    ("max_depth", -1, "max_depth must be non-negative"),
    ("timeout", True, "timeout must be a number"),
    ("timeout", float("inf"), "timeout must be a number"),
    ("timeout", -0.1, "timeout must be non-negative"),
    ("max_concurrent", -1, "max_concurrent must be non-negative"),
    ("max_turns", 0, "max_turns must be between 1 and 50"),
    ("max_turns", 51, "max_turns must be between 1 and 50"),
    ("output_limit", 0, "output_limit must be positive"),
    ("budget", 9, "budget must be a table"),
    ("budget", {"max_tokens": 1.5}, "budget.max_tokens must be a whole number"),
    ("budget", {"max_tool_calls": 0}, "budget.max_tool_calls must be positive"),
    ("budget", {"max_tokens": 0}, "budget.max_tokens must be positive"),
    ("budget", {"timeout_ms": 4999}, "budget.timeout_ms must be at least 5000"),
]  # fmt: skip


@pytest.mark.req("A-5.4", "A-5.5", "A-E2.8", "A-E2.9", "A-E2.11", "D-36")
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        *WRONG,
        *(("sub_agents_config", {key: given}, f"sub_agents_config.{told}")
          for key, given, told in CONFIG),
    ],
)  # fmt: skip
def test_an_agent_made_with_a_wrong_value_is_refused(key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Agent(**{"name": "a", "model": "p/m", key: value})
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


@pytest.mark.req("B-1", "D-12")
@pytest.mark.parametrize("blank", ["", " \t\n"])
def test_name_and_model_may_not_be_blank_and_name_is_checked_first(blank: str) -> None:
    with pytest.raises(ConfigError, match=r"(?m)^agent config missing required field: name$"):
        Agent(name=blank, model=blank)
    with pytest.raises(ConfigError, match=r"(?m)^agent config missing required field: model$"):
        Agent(name="a", model=blank)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_saved_file_has_the_mode_of_any_other_file_and_keeps_its_own(project: Path) -> None:
    plain = project / "plain"
    plain.touch()
    path = Agent(name="a", model="p/m").save()
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o600)
    Agent.load("a").save()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_litter(project: Path) -> None:
    folder = project / "axe" / "agents"
    (folder / "a.toml").mkdir()
    with pytest.raises(ConfigError, match=r"^cannot write axe/agents/a\.toml: "):
        Agent(name="a", model="p/m").save()
    assert [entry.name for entry in folder.iterdir()] == ["a.toml"]


@pytest.mark.req("B-12")
@pytest.mark.parametrize("name", ["../a", "b/a", "..", "b\\a", "C:a"])
def test_save_refuses_a_name_that_leads_elsewhere(name: str, project: Path) -> None:
    with pytest.raises(ConfigError, match=r"^invalid agent name "):
        Agent(name=name, model="p/m").save()
    assert list(project.rglob("*.toml")) == []


def test_a_variation_has_other_values_and_is_checked_as_a_new_agent_is() -> None:
    tools = ["grep"]
    agent = Agent(name="a", model="p/m", system_prompt="Be long.", tools=tools)
    tools.append("fetch")
    brief = agent.but(system_prompt="Be brief.", tools=["fetch"])
    assert (brief.system_prompt, brief.tools, brief.model) == ("Be brief.", ("fetch",), "p/m")
    assert (agent.system_prompt, agent.tools) == ("Be long.", ("grep",))
    assert agent.but() == agent
    with pytest.raises(ConfigError, match=r'(?m)^mode must be plan, ask or auto, not "yolo"$'):
        agent.but(mode="yolo")
    with pytest.raises(TypeError, match="sytem_prompt"):
        agent.but(sytem_prompt="x")


def test_tables_may_be_given_as_dicts() -> None:
    config = {"max_depth": 2, "budget": {"max_tokens": 9}}
    agent = Agent(name="a", model="p/m", limits={"max_requests": 1}, sub_agents_config=config)
    assert agent.limits == TreeLimits(max_requests=1)
    assert agent.sub_agents_config == SubAgentsConfig(max_depth=2, budget=ChildBudget(max_tokens=9))
    assert SubAgentsConfig(budget={"max_tokens": 9}).budget == ChildBudget(max_tokens=9)
    assert agent.but(retry={"max_retries": 2}).retry == Retry(max_retries=2)
    assert tomllib.loads(agent.to_toml()) == {
        "name": "a", "model": "p/m", "limits": {"max_requests": 1}, "sub_agents_config": config,
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        Agent(name="a", model="p/m", limits={"max_request": 1})
    assert caught.value.lines() == [
        'unknown key "limits.max_request"', 'did you mean "max_requests"?',
    ]  # fmt: skip


def test_a_renamed_variation_is_saved_beside_its_agent_not_over_it(tmp_path: Path) -> None:
    Agent(name="a", model="p/m").save(tmp_path)
    other = Agent.load("a", tmp_path).but(name="b", model="p/n")
    assert other.save() == tmp_path / "b.toml"
    assert Agent.load("a", tmp_path).model == "p/m"
    assert Agent.load("a", tmp_path).but(model="p/o").save() == tmp_path / "a.toml"


@pytest.mark.req("B-12")
def test_load_finds_agents_of_the_session_before_files(project: Path) -> None:
    assert Agent(name="a", model="p/file").save() == Path("axe/agents/a.toml")
    axe_nb.define(Agent(name="a", model="p/session"))
    assert Agent.load("a").model == "p/session"
    assert Agent.load("a", "elsewhere").model == "p/session"
    assert Agent.from_file("a").model == "p/file"
    session.forget("a")
    assert Agent.load("a").model == "p/file"
    assert Session().find("a").model == "p/file"


def test_an_unknown_name_is_told_with_the_nearest_agent_of_the_session_too(project: Path) -> None:
    axe_nb.define(Agent(name="researcher", model="p/m"))
    with pytest.raises(ConfigError) as caught:
        Agent.load("reasearcher")
    assert caught.value.hint == 'did you mean "researcher"?'
    with pytest.raises(ConfigError, match="agent config not found: reasearcher"):
        axe_nb.run("reasearcher", "x")


def test_an_agent_of_a_folder_above_is_told_with_the_setting_that_finds_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("axe/agents/planner.toml", 'name = "planner"\nmodel = "script/plan"\n')
    monkeypatch.chdir(put("notebooks/a.ipynb").parent)
    with pytest.raises(ConfigError) as caught:
        Agent.load("planner")
    assert caught.value.hint.startswith("it is in ../axe/agents: %config AxeMagics.agents_dir = ")


TEXT = '''\
# My critic
name = "critic"   # the name
model = "script/a"# dear model
mode = "ask"  # as by default

# who it is
system_prompt = """
You are "strict".
  Indented.
"""
tools = [
  "grep",   # finds
  # the next one reads pages
  "fetch",
]   # end of tools

memory = true

[params]
# low, for tests
temperature = 0.20   # t
max_tokens = 2_048

# delegation
[sub_agents_config]
max_depth = 2
[sub_agents_config.budget]
max_tokens = 5000 # few
# the end
'''


@pytest.fixture
def file(project: Path) -> Path:
    path = project / "axe" / "agents" / "critic.toml"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.mark.req("D-70")
@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({}, "", ""),
        ({"model": "script/b"}, "script/a", "script/b"),
        ({"mode": "auto"}, '"ask"', '"auto"'),
        ({"params": {"temperature": 0.5, "max_tokens": 2048}}, "0.20", "0.5"),
        ({"system_prompt": "Be\nbrief.\n"}, 'You are "strict".\n  Indented.\n', "Be\nbrief.\n"),
        ({"sub_agents_config": {"max_depth": 2, "budget": {"max_tokens": 7000}}}, "5000", "7000"),
        ({"vars": {"x": "y"}}, "# the end\n", '# the end\n\n[vars]\nx = "y"\n'),
        ({"description": "Judges."}, "memory = true\n", 'memory = true\ndescription = "Judges."\n'),
    ],
)
def test_only_what_differs_is_changed(
    changes: dict[str, Any], old: str, new: str, file: Path
) -> None:
    agent = Agent.load("critic").but(**changes)
    agent.save()
    assert file.read_text("utf-8") == TEXT.replace(old, new)
    assert Agent.load("critic") == agent


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("params.temperature = 0.2 # kept\n", {"params": {"temperature": 1, "seed": 2}}),
        ("params = { temperature = 0.2, x = {y=1} } # kept\n", {"params": {"x": {"y": 2}}}),
        ('[mcp_servers.x]\ncommand = ["a"] # kept\n', {"mcp_servers": {"x": {"command": ["b"]}}}),
        ("[params]\n# kept\n[[params.y]]\na=1\n", {"params": {"y": [{"a": 1}, {"a": 2}]}}),
        ("[budget]\nmax_tokens = 100 # kept\n", {"limits": {"max_total_tokens": 200}}),
        ("# kept\r\n[params]\r\nseed = 1\r\n", {"params": {"seed": 2}, "description": "x\ny"}),
        ('[output] # kept\nschema = "o.json"\n', {"output": {"type": "array"}}),
        ("[limits] # kept\nmax_cost = 1\n[vars]\na = 1\n", {"vars": {}, "limits": {"max_cost": 2}}),
    ],
)
def test_a_comment_survives_however_the_table_is_written(
    table: str, changes: dict[str, Any], file: Path
) -> None:
    (file.parent / "o.json").write_text('{"type": "object"}', "utf-8")
    file.write_bytes(f'# above\nname = "critic"\nmodel = "p/m"\n{table}'.encode())
    agent = Agent.load("critic").but(**changes)
    agent.save()
    assert Agent.load("critic") == agent
    written = file.read_bytes().decode()
    assert written.startswith("# above")
    assert "# kept" in written
    assert written.count("\n") == written.count("\r\n") or "\r" not in table
