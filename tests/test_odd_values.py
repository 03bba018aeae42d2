"""Values of other types, where people pass them: taken if they mean the same, else told plainly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import axe_nb
from axe_nb import Agent, ConfigError

pytestmark = pytest.mark.req("D-63")


@pytest.fixture(autouse=True)
def model() -> None:
    axe_nb.script("a")(lambda request: "done")


def run(**options: Any) -> str:
    return axe_nb.run(None, "go", model="script/a", display=False, **options).text


@pytest.mark.parametrize("make", [float, np.float32, np.float64])
def test_numbers_of_numpy_are_numbers(make: Callable[[float], Any]) -> None:
    assert run(timeout=make(30.5)) == "done"


@pytest.mark.parametrize("wrong", [True, "2", -1, math.nan, math.inf])
def test_what_is_no_timeout_is_told(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="timeout takes seconds, as in 120"):
        run(timeout=wrong)


@pytest.mark.parametrize(
    ("given", "sent"),
    [(np.float32(0.7), 0.7), (np.array([0.1, 2], "f4"), [0.1, 2.0]), (np.int8(3), 3)],
)
def test_parameters_of_numpy_keep_their_digits(given: Any, sent: Any) -> None:
    axe_nb.script("a")(lambda request: repr(request.params["top_k"]))
    assert run(params={"top_k": given}) == repr(sent)


def test_a_parameter_within_itself_is_told() -> None:
    params: dict[str, Any] = {}
    params["top_k"] = params
    with pytest.raises(ConfigError, match=r"params\.top_k must be valid JSON"):
        run(params=params)


@pytest.mark.parametrize("wrong", [None, 5, b"turns <= 1"])
def test_expectations_that_are_no_text_are_told(wrong: Any) -> None:
    result = axe_nb.run(None, "go", model="script/a", display=False)
    with pytest.raises(ConfigError, match="expectations must be text, not "):
        axe_nb.expect(result, wrong)


@pytest.mark.parametrize("wrong", [True, "2", 1.5, np.float64(2), 0, np.int64(0), None])
def test_what_is_no_count_is_told(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="concurrency takes a positive whole number"):
        axe_nb.map(None, ["go"], model="script/a", concurrency=wrong)
    with pytest.raises(ConfigError, match="repeats takes a positive whole number"):
        axe_nb.grid(None, "go", models="script/a", repeats=wrong)


@pytest.mark.parametrize("wrong", [None, b"x", [1], 1.5])
def test_a_name_or_path_of_another_type_is_told_in_one_line(wrong: Any) -> None:
    def record() -> None:
        with axe_nb.cassette(wrong):
            run()

    for act, told in (
        (lambda: Agent.load(wrong), "an agent's name must be a string, not "),
        (lambda: axe_nb.load(wrong), "load takes a path or the id of a run, not "),
        (record, "cassette takes the path of a file, not "),
    ):
        with pytest.raises(ConfigError, match=told) as caught:
            act()
        assert "\n" not in caught.value.message
