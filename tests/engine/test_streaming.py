"""Whether a model streams changes what is seen on the way, not what a run comes to (D-24)."""

import asyncio
from pathlib import Path

import pytest

from axe_nb.events import Event, RunFinished, TextDelta
from axe_nb.session.overrides import Overrides
from axe_nb.session.session import Session
from tests.engine.in_process import ask_session

SCRIPT = """
stream = true
[[rule]]
when = { turn = 1 }
text = "I shall ask the child."
calls = [{ tool = "call_agent", arguments = { agent = "child", task = "look" } }]
[[rule]]
text = "The child said what it saw."
"""


@pytest.fixture
def tree(project: Path) -> Path:
    """A lead that asks a child; both models stream if they are asked to."""
    write_agents(project)
    scripts = project / "axe" / "scripts"
    scripts.mkdir()
    (scripts / "lead.toml").write_text(SCRIPT)
    (scripts / "child.toml").write_text('stream = true\n[[rule]]\ntext = "A bird, two."\n')
    return project


def write_agents(project: Path, lead: str = "", child: str = "") -> None:
    for name, keys in (("lead", f'sub_agents = ["child"]\n{lead}'), ("child", child)):
        text = f'name = "{name}"\nmodel = "script/{name}"\n{keys}\n'
        (project / "axe" / "agents" / f"{name}.toml").write_text(text)


def events(overrides: Overrides) -> list[Event]:
    """The events of a run that someone watches."""
    seen: list[Event] = []
    asyncio.run(ask_session(Session(), "lead", "go", overrides, seen.append))
    return seen


def streaming(seen: list[Event]) -> set[str]:
    return {event.run for event in seen if isinstance(event, TextDelta)}


@pytest.mark.parametrize(
    ("lead", "child", "option", "expected"),
    [
        ("", "", None, {"0", "0.1"}),
        ("stream = true", "stream = true", None, {"0", "0.1"}),
        ("stream = false", "stream = true", None, set()),
        ("", "stream = false", None, {"0"}),
        ("", "", False, set()),
        ("stream = false", "", True, {"0", "0.1"}),
    ],
)
def test_children_stream_as_their_root_unless_their_own_file_forbids_it(
    tree: Path, lead: str, child: str, option: bool | None, expected: set[str]
) -> None:
    write_agents(tree, lead, child)
    seen = events(Overrides(stream=option))
    assert streaming(seen) == expected
    assert isinstance(seen[-1], RunFinished)
    assert seen[-1].result.warnings == ()
