"""Saving an agent over its file: only what differs is changed, all else stays as it was written."""

from pathlib import Path
from typing import Any

import pytest

from axe_nb import Agent

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
