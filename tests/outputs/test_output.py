"""Answers become data, and data the type that was asked for."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pydantic
import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request, call, script
from axe_nb.tools.output_form import WrongOutput, make_output


@dataclass
class Few:
    """At most three."""

    n: int

    def __post_init__(self) -> None:
        if self.n > 3:
            raise ValueError("n is too large")


@dataclass
class Trip:
    """A trip.

    Attributes:
        day: Its first day.
    """

    day: datetime.date
    leaves: datetime.datetime | None = None


DAY = datetime.date(2026, 11, 23)
EIGHT = datetime.datetime(2026, 11, 23, 8, tzinfo=datetime.UTC)


class Kind(Enum):
    TOWN = "town"
    CITY = "city"


@dataclass
class Town:
    """A town.

    Attributes:
        people: Inhabitants.
    """

    name: str
    people: int = 0
    kind: Kind = Kind.TOWN
    near: list[str] = field(default_factory=list)


class Plain(TypedDict):
    a: int
    b: NotRequired[list[datetime.date]]


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
        ({"type": "array"}, '{"value": [1]}', [1]),
        ({}, "7", 7),
        (Town, '{"name": "Ulm", "kind": "city"}', Town("Ulm", kind=Kind.CITY)),
        (list[Town], '{"value": [{"name": "Ulm"}]}', [Town("Ulm")]),
        (list[Town], '[{"name": "Ulm"}]', [Town("Ulm")]),
        (Plain, '{"a": 1}', {"a": 1}),
        (list[Plain], '[{"a": 1, "b": ["2026-11-23"]}]', [{"a": 1, "b": [DAY]}]),
        (Model, '{"x": 1, "inner": {"x": 2}}', Model(x=1, inner=Model(x=2))),
        (list[Model], '[{"x": 1}]', [Model(x=1)]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (int, "3.0", 3),
        (Trip, '{"day": "2026-11-23"}', Trip(DAY)),
        (Trip, '{"day": "2026-11-23", "leaves": "2026-11-23T08:00:00Z"}', Trip(DAY, EIGHT)),
        (datetime.date, '"2026-11-23"', DAY),
        (Annotated[Town, "a town"], '{"name": "Ulm"}', Town("Ulm")),
        (list[Annotated[int, "a number"]], "[1]", [1]),
    ],
)  # fmt: skip
def test_an_answer_becomes_a_value_of_its_type(given: Any, text: str, value: Any) -> None:
    found = make_output(given).read(text).value
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("given", "text", "mistake"),
    [
        (Town, "{}", "data: 'name' is a required property"),
        (Town, '{"name": 1}', "data.name: 1 is not of type 'string'"),
        (Town, '{"name": "a", "x": 1}', 'data: unexpected "x"'),
        (Plain, '{"a": "1"}', "data.a: '1' is not of type 'integer'"),
        (Model, '{"x": -1}', "data.x: Value error, must not be negative"),
        (list[Model], '[{"x": -1}]', r"data\[0\].x: Value error"),
        ({"type": "object"}, "Here: {}", 'it is not JSON, but the text "Here: {}"'),
        ({"type": "object"}, "", "it is empty"),
        ({"type": "object"}, '{"a": NaN}', "it is not JSON"),
        ({"type": "object"}, '{"a": 1}{"a": 2}', "it is not JSON"),
        ({"type": "array"}, "[" * 5000 + "]" * 5000, "nested too deeply"),
        ({"type": "object"}, "{" + '"a":1,' * 3 + "}", "it is not JSON"),
        (int, "9" * 5000, "it is not JSON"),
        (Trip, '{"day": "tomorrow"}', '"data.day" must be a date'),
        (Trip, '{"day": 20261123}', "data.day: 20261123 is not of type 'string'"),
        (Trip, '{"day": "2026-02-30"}', '"data.day" must be a date'),
        (
            Trip,
            '{"day": "2026-02-28", "leaves": 8}',
            "data.leaves: 8 is not of type 'string' or 'null'",
        ),
        (Plain, '{"a": 1, "b": ["x"]}', r'"data.b\[0\]" must be a date'),
        (Few, '{"n": 4}', "n is too large"),
    ],
)
def test_what_is_no_value_of_a_type_is_told(given: Any, text: str, mistake: str) -> None:
    with pytest.raises(WrongOutput, match=mistake) as raised:
        make_output(given).read(text)
    assert len(str(raised.value)) < 1000


def test_formats_and_descriptions_are_in_the_schema() -> None:
    properties = make_output(Trip).sent["properties"]
    assert properties["day"] == {
        "type": "string", "format": "date", "description": "Its first day."
    }  # fmt: skip
    assert {"type": "string", "format": "date-time"} in properties["leaves"]["anyOf"]
    people = make_output(Town).sent["properties"]["people"]
    assert people == {"type": "integer", "description": "Inhabitants.", "default": 0}
    assert make_output(Town).sent["required"] == ["name"]
    assert make_output(Plain).sent["required"] == ["a"]
    assert make_output(list[int]).sent == {
        "type": "object", "required": ["value"], "additionalProperties": False,
        "properties": {"value": {"type": "array", "items": {"type": "integer"}}},
    }  # fmt: skip


def test_a_result_with_such_values_is_saved_and_told_as_json(project: Path) -> None:
    told = [{"day": "2026-11-23", "leaves": "2026-11-23T08:00:00+00:00"}]
    script("m")(lambda request: told)
    result = axe_nb.run(Agent("a", "script/m"), "hi", output=list[Trip])
    assert result.data == [Trip(DAY, EIGHT)]
    assert json.loads(result.text) == told
    assert result.to_dict()["data"] == told
    result.save("r.axe")
    assert axe_nb.load("r.axe").data == told


def test_a_tool_takes_such_values_too(project: Path) -> None:
    seen: list[Any] = []

    def book(day: datetime.date, place: Town) -> str:
        """Books."""
        seen.append((day, place))
        return "booked"

    @script("m")
    def model(request: Request) -> Any:
        days = ("2026-11-23", "soon")
        if request.turn > len(days):
            return request.last
        return call("book", day=days[request.turn - 1], place={"name": "Ulm"})

    result = axe_nb.run(Agent("a", "script/m", tools=(book,)), "go")
    assert seen == [(DAY, Town("Ulm"))]
    assert '"day" must be a date (as in 2026-11-23), not "soon"' in result.text


def test_other_types_have_the_next_step() -> None:
    told = "output has the type Path, which has no JSON equivalent"
    with pytest.raises(ConfigError, match=told) as raised:
        make_output(Path)
    assert "pydantic model" in raised.value.hint


def test_a_fence_that_is_never_closed_costs_little() -> None:
    started = time.thread_time()
    with pytest.raises(WrongOutput):
        make_output({"type": "object"}).read("```json\n" + "\n" * 200_000)
    assert time.thread_time() - started < 2


def test_neither_library_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, axe_nb; from axe_nb.tools.output_form import make_output; "
        "axe_nb.script('a')(lambda r: r.results and 'b' or axe_nb.call('grep', pattern='x')); "
        "axe_nb.run(axe_nb.Agent('a', 'script/a', tools=['grep']), 'x', step=lambda _: 'go'); "
        "print('jsonschema' in sys.modules, 'pydantic' in sys.modules); make_output(int); "
        "print('jsonschema' in sys.modules, 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-4:] == ["False", "False", "True", "False"]
