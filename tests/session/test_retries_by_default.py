"""Retries without a setting, and the settings in their order; scripts that fail for now.

Source: D-72; docs/providers.md "Retries".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import axe_nb
from axe_nb import Agent, ProviderError, Request
from tests.files import settings

pytestmark = pytest.mark.req("D-72")

SOON = 0.01


class Failing:
    """The model `script/failing`, which fails so often before it answers."""

    def __init__(self) -> None:
        self.times = 2
        self.error: dict[str, Any] = {"category": "rate_limit", "message": "slow down"}
        self.asked: list[str] = []

    def answer(self, request: Request) -> str:
        self.asked.append(request.last)
        if len(self.asked) <= self.times:
            raise ProviderError(**{"retry_after": SOON, **self.error})
        return "at last"


@pytest.fixture(autouse=True)
def failing(monkeypatch: pytest.MonkeyPatch, project: Path) -> Failing:
    monkeypatch.delenv("AXE_NB_RETRIES")
    made = Failing()
    axe_nb.script("failing")(made.answer)
    return made


def run(agent: Any = None, **options: Any) -> axe_nb.RunResult:
    model = {} if agent else {"model": "script/failing"}
    return axe_nb.run(agent, "go", display=False, **model, **options)


def count_attempts(failing: Failing, agent: Any = None, **options: Any) -> int:
    failing.times = 99
    failing.asked.clear()
    assert run(agent, **options).status == "error"
    return len(failing.asked)


ERRORS: list[tuple[bool, dict[str, Any]]] = [
    (True, {"category": "bad_request", "status": 409, "retryable": True}),
    (True, {"category": "rate_limit", "status": 429}),
    (True, {"category": "server"}),
    (False, {"category": "bad_request", "status": 400}),
    (False, {"category": "rate_limit", "status": 429, "retryable": False}),
]  # fmt: skip
"""(True if it passes, the error)."""


@pytest.mark.parametrize(("passes", "error"), ERRORS)
def test_what_passes_is_sent_again(passes: bool, error: dict[str, Any], failing: Failing) -> None:
    failing.error = {"message": "x", **error}
    result = run()
    assert (result.ok, len(failing.asked)) == ((True, 3) if passes else (False, 1))
    assert result.retries == len(failing.asked) - 1


def test_the_settings_in_their_order(failing: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Agent("plain", "script/failing")
    own = plain.but(name="own", retry={"max_retries": 3})
    none = plain.but(name="none", retry={"max_retries": 0})
    assert count_attempts(failing, plain) == 3
    settings("[retry]\nmax_retries = 1\n")
    assert count_attempts(failing, plain) == 2
    monkeypatch.setenv("AXE_NB_RETRIES", "0")
    assert count_attempts(failing, plain) == 1
    assert count_attempts(failing) == 1, "without an agent"
    assert count_attempts(failing, own) == 4
    monkeypatch.setenv("AXE_NB_RETRIES", "5")
    assert count_attempts(failing, none) == 1
    assert count_attempts(failing, own, retries=1) == 2
    assert count_attempts(failing, own, retries=0) == 1
