"""The table of options: what it says of the four faces is so, and they mean the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb.commands.option_table import RUN
from axe_nb.commands.options import OPTIONS
from axe_nb.commands.parser import UsageError, parse_run, parser
from axe_nb.messages import Request
from axe_nb.scripting.lookup import functions
from axe_nb.session.session import Session
from tests.engine.in_process import ask_session


def test_each_face_has_the_options_of_its_rows_and_refuses_the_others() -> None:
    for face in ("cell", "line", "command"):
        known = {flag for flag in parser(RUN, face)._option_string_actions if flag[:2] == "--"}
        assert known - {"--help"} == {option.flag for option in OPTIONS if face in option.faces}
    for option in OPTIONS:
        value = [option.choices[0] if option.choices else "a"] if option.metavar else []
        for face in {"line", "cell"} - set(option.faces):
            with pytest.raises(UsageError, match=f"unrecognized arguments: {option.flag}"):
                parse_run(" ".join(["lead", option.flag, *value]), face)


SAMPLES: Mapping[str, tuple[str, Any]] = {
    "--output": ("answer.json", {"type": "object"}),
    "--model": ("script/other", "script/other"),
    "--model-all": ("script/other", "script/other"),
    "--skill": ("review.md", "review.md"),
    "--workdir": ("data", "data"),
    "--timeout": ("2.5", 2.5),
    "--retries": ("1", 1),
    "--param": ("temperature=0.5 seed=7", {"temperature": 0.5, "seed": 7}),
    "--var": ("place=there tone=dry", {"place": "there", "tone": "dry"}),
    "--agents-dir": ("more/agents", "more/agents"),
    "--tools": ("read_file,grep", ("read_file", "grep")),
    "--mode": ("plan", "plan"),
    "--no-stream": ("", False),
    "--expect": ("'turns < 9; no grep'", "turns < 9; no grep"),
    "--step": ("", True),
    "--break": ("turn,tool:grep", "turn, tool:grep"),
}
"""Option of all faces → (on a line, in Python)."""

WHOLE_RUN = {"--timeout", "--retries", "--no-stream", "--expect", "--step", "--break"}
"""Options that change nothing in the first request."""


@pytest.fixture
def seen(project: Path) -> Iterator[list[Request]]:
    """The requests of an agent whose files are in this project."""
    for folder in ("data", "axe/skills", "more/agents"):
        (project / folder).mkdir(parents=True, exist_ok=True)
    (project / "axe" / "review.md").write_text("Be strict.", "utf-8")
    (project / "data" / "notes.txt").write_text("seven", "utf-8")
    (project / "answer.json").write_text('{"type": "object"}', "utf-8")
    for folder, prompt in (("axe", "Here."), ("more", "There.")):
        (project / folder / "agents" / "lead.toml").write_text(
            f'name = "lead"\nmodel = "script/lead"\nsystem_prompt = "{prompt} {{{{ place }}}}"\n'
            'files = ["*.txt"]\ntools = ["write_file", "grep"]\n'
            '[vars]\nplace = "here"\ntone = ""\n',
            "utf-8",
        )
    requests: list[Request] = []
    for name in ("lead", "other"):

        @axe_nb.script(name)
        async def answer(request: Request) -> str:
            requests.append(request)
            await asyncio.sleep(0 if request.last == "quick" else 5)
            return "done"

    yield requests
    functions.clear()


@pytest.mark.parametrize("flag", sorted(SAMPLES.keys() - WHOLE_RUN))
def test_an_option_means_the_same_in_every_face(seen: list[Request], flag: str) -> None:
    text, value = SAMPLES[flag]
    [option] = [option for option in OPTIONS if option.flag == flag]
    axe_nb.run("lead", "quick", display=False)
    axe_nb.run("lead", "quick", display=False, **{option.keyword: value})
    for face in ("cell", "line", "command"):
        asked = parse_run(f"lead {flag} {text}", face)
        asyncio.run(ask_session(Session(), asked.agent, "quick", asked.overrides))
    plain, in_python, *in_text = (told(request) for request in seen if request.turn == 1)
    assert in_python != plain, "the option does something"
    assert in_text == [in_python] * 3


def told(request: Request) -> Any:
    tools = [tool.name for tool in request.tools]
    return request.model, request.system, request.params, tools, request.last, request.output
