"""`python -m tests.models`: compares the table of models with the vendors' SDKs and genai-prices.

Prints each model that no family of `axe_nb/messages/models.toml` fits, each date of a vendor that
the table has not, and each context that differs; the exit code is 1 if there is any.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import get_args

from axe_nb.messages.model_table import find_facts

NOT_SERVED = ("gpt-5.1-mini",)
"""Names that an SDK keeps although no server has such a model."""

MARGIN = 0.1
"""Share by which two sources round the same context differently."""

_NOTE = re.compile(r'^- ((?:"[^"]+",?\s+)*"[^"]+"):\s+Announced shutdown\s+date:\s+(\S+)\.', re.M)
_ORDINAL = re.compile(r"(\d)(st|nd|rd|th)\b")


def list_models() -> Iterator[tuple[str, str]]:
    """Yields (vendor, model) for each model that the SDKs list."""
    from anthropic.types.model_param import ModelParam
    from openai.types.shared.chat_model import ChatModel
    from openai.types.shared.responses_model import ResponsesModel

    for vendor, listed in (
        ("anthropic", ModelParam),
        ("openai", ChatModel),
        ("openai", ResponsesModel),
    ):
        yield from ((vendor, name) for name in _flatten(listed) if name not in NOT_SERVED)


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


def list_contexts() -> Iterator[tuple[str, str, int]]:
    """Yields (vendor, model, its context in tokens) from genai-prices."""
    from genai_prices.data import providers

    for provider in providers:
        if provider.id in ("anthropic", "openai"):
            for model in provider.models:
                if model.context_window:
                    yield provider.id, model.id, model.context_window


def find_differences() -> Iterator[str]:
    """Yields a line for each difference."""
    ends = {(vendor, name): day for vendor, name, day in list_ends()}
    served = dict.fromkeys([*list_models(), *ends])
    for vendor, name in served:
        facts = find_facts(vendor, name)
        if not facts.is_known:
            yield f"{vendor}/{name}: no family fits it"
        elif facts.retires != (day := ends.get((vendor, name))):
            yield f"{vendor}/{name}: ends on {day} in the SDK, on {facts.retires} in the table"
    for vendor, name, context in list_contexts():
        ours = find_facts(vendor, name).context
        if (vendor, name) in served and abs((ours or 0) - context) > MARGIN * context:
            yield f"{vendor}/{name}: context of {context:,} in genai-prices, {ours} in the table"


def _flatten(listed: object) -> Iterator[str]:
    if isinstance(listed, str):
        yield listed
    for one in get_args(listed):
        yield from _flatten(one)


if __name__ == "__main__":
    lines = list(find_differences())
    print("\n".join(lines) or "no difference")
    sys.exit(1 if lines else 0)
