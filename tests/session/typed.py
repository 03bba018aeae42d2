"""What a person types at prompts."""

from __future__ import annotations

import pytest


def say(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Answers the prompts in turn; the prompts."""
    prompts: list[str] = []
    answers = list(words)

    def typed(prompt: str = "") -> str:
        prompts.append(prompt)
        return answers.pop(0)

    monkeypatch.setattr("builtins.input", typed)
    return prompts
