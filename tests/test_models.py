"""The table of models, and the models that we suggest."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import get_args

import pytest

from axe_nb.agents.agent import Agent
from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.commands.actions import format_agent
from axe_nb.commands.doctor import examine
from axe_nb.messages.model_table import SOON, find_facts, suggest_model, suggest_small, tell_end
from axe_nb.session.session import Session

ROOT = Path(__file__).parent.parent

MODEL = re.compile(
    r"\b(?:(anthropic|openai)/)?((?:claude|gpt|o\d)-[\w.-]*\w|chatgpt-[\w-]+)|\bopenai/([\w.-]+\w)"
)
"""A vendor's model, with or without its provider."""

NO_MODEL = {"gpt-oss", "gpt-oss-120b-1", "claude-code", "openai/v1", "openai/deployments"}
"""What looks like one."""

OF_TESTS = {"openai/parrot", "openai/NAME"}
"""Models of scripts that are served in OpenAI's protocol."""

WRONG = {"gpt-4o"}
"""Models in examples of mistakes, which are never asked."""


def find_released() -> date:
    """The date of the newest release; before it, the day on which the table was compared."""
    dated = re.findall(r"^## \S+ - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    table = (ROOT / "axe_nb" / "messages" / "models.toml").read_text()
    dated += re.findall(r"^checked = (\S+)", table, re.M)
    return max(map(date.fromisoformat, dated))


def list_texts() -> Iterator[tuple[Path, str]]:
    yield ROOT / "README.md", (ROOT / "README.md").read_text("utf-8")
    for folder in ("axe_nb", "docs", "notebooks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".toml", ".js", ".ipy") and path.name != "models.toml":
                yield path, path.read_text("utf-8")
            elif path.suffix == ".ipynb":
                cells = json.loads(path.read_text("utf-8"))["cells"]
                yield path, "\n".join("".join(cell["source"]) for cell in cells)


def find_named() -> Iterator[tuple[str, str]]:
    """Yields (place, model) for each model of a vendor that a text names."""
    for path, text in list_texts():
        for number, line in enumerate(text.split("\n"), 1):
            for found in MODEL.finditer(line):
                name = found[0].rstrip(".")
                plain = name.rpartition("/")[2]
                if not {name, plain} & (NO_MODEL | OF_TESTS | WRONG):
                    yield f"{path.relative_to(ROOT)}:{number}", plain


def test_no_text_names_a_model_that_is_unknown_or_about_to_end() -> None:
    released, named = find_released(), list(find_named())
    assert len(named) > 10
    unknown = [f"{place}: {m}" for place, m in named if not find_facts("", m).is_known]
    soon = released + SOON
    ending = [f"{at}: {m}" for at, m in named if (find_facts("", m).retires or date.max) <= soon]
    assert (unknown, ending) == ([], [])
    models = [*map(suggest_model, PROVIDERS), suggest_small()]
    suggested = {model.partition("/")[2] for model in models}
    other = [f"{place}: {m}" for place, m in named if m not in suggested]
    assert [one for one in other if not one.startswith("docs/")] == []


def test_a_model_that_ends_is_told_with_its_date_and_the_next_step() -> None:
    told = tell_end("anthropic/claude-opus-4-5", date(2026, 11, 26))
    step = f"use {suggest_model('anthropic')}"
    assert told == ("its vendor ends this model on 2027-01-22", step)
    assert tell_end("anthropic/claude-opus-4-5", date(2026, 3, 1)) == ("", "")
    told = tell_end("gateway/anthropic/claude-opus-4.5", date(2027, 1, 22))
    assert told == ("its vendor ended this model on 2027-01-22", "use a newer model")


def test_doctor_and_show_say_that_a_model_is_about_to_end(project: Path) -> None:
    agent = Agent("a", "openai/gpt-3.5-turbo")
    session = Session()
    session.agents["a"] = agent
    found = asyncio.run(examine(session))
    told = [(f.state, f.message, f.next_step) for f in found if f.what == f"model {agent.model}"]
    message, step = "its vendor ended this model on 2026-10-23", f"use {suggest_model('openai')}"
    assert told == [("note", f"{message}, needed by agent a", step)]
    assert f"{'Model Ends:':<16}{message}: {step}" in format_agent(agent)


NOT_SERVED = ("gpt-5.1-mini",)
"""Names that an SDK keeps although no server has such a model."""

_NOTE = re.compile(r'^- ((?:"[^"]+",?\s+)*"[^"]+"):\s+Announced shutdown\s+date:\s+(\S+)\.', re.M)
_ORDINAL = re.compile(r"(\d)(st|nd|rd|th)\b")


def list_models() -> Iterator[tuple[str, str]]:
    """Yields (vendor, model) for each model that the SDKs list."""
    from anthropic.types.model_param import ModelParam
    from openai.types.shared.chat_model import ChatModel
    from openai.types.shared.responses_model import ResponsesModel

    listed = {ModelParam: "anthropic", ChatModel: "openai", ResponsesModel: "openai"}
    for one, vendor in listed.items():
        yield from ((vendor, name) for name in _flatten(one) if name not in NOT_SERVED)


def list_ends() -> Iterator[tuple[str, str, date]]:
    """Yields (vendor, model, the day it ends) from the deprecation tables of the SDKs."""
    from anthropic._data import DEPRECATED_MODELS

    for name, words in DEPRECATED_MODELS.items():
        ends = datetime.strptime(_ORDINAL.sub(r"\1", words), "%B %d, %Y").date()
        yield "anthropic", name, ends
    found = importlib.util.find_spec("openai.types.shared.chat_model")
    assert found is not None
    assert found.origin is not None
    for names, day in _NOTE.findall(Path(found.origin).read_text("utf-8")):
        for name in re.findall('"([^"]+)"', names):
            yield "openai", name, date.fromisoformat(day)


def find_differences() -> Iterator[str]:
    ends = {(vendor, name): day for vendor, name, day in list_ends()}
    served = dict.fromkeys([*list_models(), *ends])
    for vendor, name in served:
        facts = find_facts(vendor, name)
        if not facts.is_known:
            yield f"{vendor}/{name}: no family fits it"
        elif facts.retires != (day := ends.get((vendor, name))):
            yield f"{vendor}/{name}: ends on {day} in the SDK, on {facts.retires} in the table"


def _flatten(listed: object) -> Iterator[str]:
    if isinstance(listed, str):
        yield listed
    for one in get_args(listed):
        yield from _flatten(one)


def test_the_table_has_what_the_sdks_and_genai_prices_have() -> None:
    pytest.importorskip("anthropic._data")
    pytest.importorskip("openai.types.shared.responses_model")
    pytest.importorskip("genai_prices")
    assert list(find_differences()) == []
