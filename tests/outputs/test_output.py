"""Answers become data, and data the type that was asked for."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NotRequired, TypedDict

import pydantic
import pytest

from axe_nb.errors import ConfigError
from axe_nb.tools.output_form import Output, WrongOutput, make_output


class Kind(Enum):
    TOWN = "town"
    CITY = "city"


@dataclass
class Place:
    """A place.

    Attributes:
        people: Inhabitants.
    """

    name: str
    people: int = 0
    kind: Kind = Kind.TOWN
    near: list[str] = field(default_factory=list)


class Row(TypedDict):
    a: int
    b: NotRequired[list[str]]


class Model(pydantic.BaseModel):
    x: float
    inner: Model | None = None

    @pydantic.field_validator("x")
    @classmethod
    def _positive(cls, value: float) -> float:
        if value < 0:
            raise ValueError("must not be negative")
        return value


@pytest.mark.parametrize(
    ("given", "text", "value"),
    [
        ({"type": "object"}, '{"a": [1, null]}', {"a": [1, None]}),
        ({"type": "array"}, "[1]", [1]),
        ({"type": "array"}, '{"value": [1]}', [1]),
        ({}, "7", 7),
        (Place, '{"name": "Ulm", "kind": "city"}', Place("Ulm", kind=Kind.CITY)),
        (list[Place], '{"value": [{"name": "Ulm"}]}', [Place("Ulm")]),
        (list[Place], '[{"name": "Ulm"}]', [Place("Ulm")]),
        (Row, '{"a": 1}', {"a": 1}),
        (list[Row], '[{"a": 1, "b": ["x"]}]', [{"a": 1, "b": ["x"]}]),
        (Model, '{"x": 1, "inner": {"x": 2}}', Model(x=1, inner=Model(x=2))),
        (list[Model], '[{"x": 1}]', [Model(x=1)]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (int, "3.0", 3),
    ],
)
def test_an_answer_becomes_the_value_that_was_asked_for(given: Any, text: str, value: Any) -> None:
    assert make_output(given).read(text).value == value


@pytest.mark.parametrize(
    ("given", "text", "mistake"),
    [
        (Place, "{}", "data: 'name' is a required property"),
        (Place, '{"name": 1}', "data.name: 1 is not of type 'string'"),
        (Place, '{"name": "a", "x": 1}', 'data: unexpected "x"'),
        (Row, '{"a": "1"}', "data.a: '1' is not of type 'integer'"),
        (Model, '{"x": -1}', "data.x: Value error, must not be negative"),
        (list[Model], '[{"x": -1}]', r"data\[0\].x: Value error"),
        ({"type": "object"}, "Here: {}", 'it is not JSON, but the text "Here: {}"'),
        ({"type": "object"}, "", "it is empty"),
        ({"type": "object"}, '{"a": NaN}', "it is not JSON"),
        ({"type": "object"}, '{"a": 1}{"a": 2}', "it is not JSON"),
        ({"type": "array"}, "[" * 5000 + "]" * 5000, "nested too deeply"),
        ({"type": "object"}, "{" + '"a":1,' * 3 + "}", "it is not JSON"),
        (int, "9" * 5000, "it is not JSON"),
    ],
)
def test_what_does_not_fit_is_told(given: Any, text: str, mistake: str) -> None:
    with pytest.raises(WrongOutput, match=mistake) as raised:
        make_output(given).read(text)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    "text", ['```json\n{"a": 1}\n```', '```\n{"a": 1}\n```', '  ```JSON\n\n{"a": 1}```\n']
)
def test_a_fence_around_the_whole_answer_is_taken_off(text: str) -> None:
    answer = make_output({"type": "object"}).read(text)
    assert answer.data == {"a": 1}
    assert answer.text == '{"a": 1}'


def test_a_fence_that_is_never_closed_costs_little() -> None:
    text = "```json\n" + "\n" * 200_000
    started = time.thread_time()
    with pytest.raises(WrongOutput):
        make_output({"type": "object"}).read(text)
    assert time.thread_time() - started < 2


def test_the_models_own_words_stay_unless_there_is_more_in_them() -> None:
    own = make_output({"type": "object"}).read('{"a":  1}')
    assert own.text == '{"a":  1}'
    assert make_output(list[int]).read('{"value": [1, 2]}').text == "[1, 2]"


def test_data_that_is_no_object_is_asked_for_within_one() -> None:
    sent = make_output(list[int]).sent
    assert sent["type"] == "object"
    assert sent["properties"] == {"value": {"type": "array", "items": {"type": "integer"}}}
    assert sent["required"] == ["value"]


def test_a_type_is_described_with_its_docstring() -> None:
    sent = make_output(Place).sent
    assert sent["properties"]["people"]["description"] == "Inhabitants."
    assert sent["required"] == ["name"]


@pytest.mark.parametrize("given", [3, "text", print, object(), complex, {1: 2}])
def test_what_describes_no_answer_is_refused_in_one_line(given: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        make_output(given)
    assert "0x" not in str(raised.value)


def test_a_fault_of_the_users_own_class_is_a_mistake_of_the_answer() -> None:
    @dataclass
    class Strict:
        n: int

        def __post_init__(self) -> None:
            if self.n > 3:
                raise ValueError("n is too large")

    with pytest.raises(WrongOutput, match="n is too large"):
        make_output(Strict).read('{"n": 4}')


def test_an_output_is_used_as_it_is() -> None:
    made = make_output(int)
    assert make_output(made) is made
    assert isinstance(made, Output)


def test_neither_library_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, axe_nb; from axe_nb.tools.output_form import make_output; "
        "print('jsonschema' in sys.modules, 'pydantic' in sys.modules); make_output(int); "
        "print('jsonschema' in sys.modules, 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True", "False"]
