"""The variants of a grid, and their names."""

from __future__ import annotations

from typing import Any

import pytest

from axe_nb import Agent
from axe_nb.errors import ConfigError
from axe_nb.exploring.grid_variants import make_variants

pytestmark = pytest.mark.req("E-5")


def labels(*given: Any) -> list[str]:
    return [variant.label for variant in make_variants(*given)]


def test_a_variant_is_named_by_what_it_differs_in() -> None:
    assert labels("a", None, None, "p") == ["a"]
    assert labels(["a", Agent(name="b", model="script/x")], None, None, "p") == ["a", "b"]
    assert labels("a", ["m/1", "m/2"], {"temperature": 0}, "p") == ["m/1", "m/2"]
    assert labels(["a", "b"], ["m/1", "m/2"], None, "p") == [
        "a · m/1", "a · m/2", "b · m/1", "b · m/2",
    ]  # fmt: skip
    assert labels("a", None, [{}, {"temperature": 0}], {"short": "p", "long": "q"}) == [
        "no params · short", "no params · long", "temperature=0 · short", "temperature=0 · long",
    ]  # fmt: skip
    assert labels("a", None, {"cold": {"temperature": 0}, "hot": {"temperature": 1}}, "p") == [
        "cold", "hot",
    ]  # fmt: skip
    assert labels(None, ["m/1", "m/2"], None, ["p", "q"]) == [
        "m/1 · prompt 0", "m/1 · prompt 1", "m/2 · prompt 0", "m/2 · prompt 1",
    ]  # fmt: skip


def test_names_that_begin_alike_are_told_apart() -> None:
    long = "openrouter/anthropic/claude-sonnet-5-5-2026"
    assert labels("a", [f"{long}-1", f"{long}-2", "m/1"], None, "p") == [
        f"{long}-1", f"{long}-2", "m/1",
    ]  # fmt: skip
    assert labels("a", [f"{long}-1", "m/1"], None, "p") == [f"{long[:39]}…", "m/1"]
    assert labels("a", None, [{"stop": [f"{long} {n}"]} for n in (1, 2)], "p") == [
        f'stop=["{long} 1"]', f'stop=["{long} 2"]',
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=f"models contains {long[:39]}… twice"):
        labels("a", [f"{long}-1", f"{long}-1"], None, "p")


def test_each_variant_has_what_it_asks_with() -> None:
    [_, second] = make_variants("a", "m/1", {"x": {"n": 1}, "y": {"n": 2}}, "p")
    assert (second.agent, second.model, second.params, second.prompt) == ("a", "m/1", {"n": 2}, "p")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (([], None, None, "p"), "agents is empty"),
        ((["a", "a"], None, None, "p"), "agents contains a twice"),
        (("a", 7, None, "p"), "models takes one value or a list, not int"),
    ],
)
def test_what_makes_no_variants_is_told(given: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make_variants(*given)
