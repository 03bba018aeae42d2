"""Types become JSON Schema, and JSON becomes values of those types; mistakes say what to mend."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal

import jsonschema
import pytest

from axe_nb.conversion.json_schema import Parameter, shape
from axe_nb.conversion.jsonable import jsonable
from axe_nb.errors import ConfigError
from axe_nb.messages import ToolSpec
from axe_nb.tools.python_tool import PythonFunction, check
from axe_nb.tools.tool import ToolError


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Size(StrEnum):
    S = "small"
    L = "large"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Point:
    """A place.

    Attributes:
        x: metres to the east
    """

    x: float
    y: float = 0.0


@dataclass
class Route:
    name: str
    points: list[Point]
    colour: Colour = Colour.RED
    notes: dict[str, list[int]] = field(default_factory=dict)
    end: Point | None = None


def schema_of(function: Any) -> dict[str, Any]:
    wanted = PythonFunction(function, function.__name__)
    specs = {name: parameter.spec for name, parameter in wanted.parameters.items()}
    return ToolSpec(function.__name__, wanted.description, specs).input_schema()


@pytest.mark.req("A-1.2", "A-2.2")
def test_a_signature_and_its_docstring_become_the_schema() -> None:
    def weather(
        city: str,
        days: int = 3,
        units: Literal["metric", "imperial"] = "metric",
        wind: bool = False,
        factor: float | None = None,
    ) -> str:
        """The weather of a city,
        for some days.

        More about it that no model needs.

        Args:
            city: which city,
                by name
            days (int, optional): how many days: 1 to 7

        Returns:
            text: nothing that is a parameter
        """
        return ""

    assert PythonFunction(weather, "weather").description == "The weather of a city, for some days."
    assert schema_of(weather) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "which city, by name"},
            "days": {"type": "integer", "description": "how many days: 1 to 7", "default": 3},
            "units": {"type": "string", "description": "", "enum": ["metric", "imperial"],
                      "default": "metric"},
            "wind": {"type": "boolean", "description": "", "default": False},
            "factor": {"type": "number", "description": ""},
        },
        "required": ["city"],
    }  # fmt: skip


@pytest.mark.req("A-1.2")
def test_containers_enums_and_dataclasses_are_described_down_to_their_parts() -> None:
    def plan(
        points: list[Point],
        tags: Sequence[str],
        by_name: Mapping[str, Level],
        pair: tuple[int, int],
        colour: Colour = Colour.RED,
        extra=None,
    ) -> None: ...

    point = {
        "type": "object",
        "properties": {
            "x": {"type": "number", "description": "metres to the east"},
            "y": {"type": "number", "default": 0.0},
        },
        "required": ["x"],
        "additionalProperties": False,
    }
    levels = {"type": "string", "enum": ["LOW", "HIGH"]}
    integers = {"items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    assert schema_of(plan)["properties"] == {
        "points": {"type": "array", "description": "", "items": point},
        "tags": {"type": "array", "description": "", "items": {"type": "string"}},
        "by_name": {"type": "object", "description": "", "additionalProperties": levels},
        "pair": {"type": "array", "description": "", **integers},
        "colour": {
            "type": "string", "description": "", "enum": ["red", "green"], "default": "red",
        },
        "extra": {"description": ""},
    }  # fmt: skip


@dataclass
class Node:
    children: list[Node]


def any_number(*numbers: int) -> None: ...
def anything(**options: int) -> None: ...
def of_bytes(data: bytes) -> None: ...
def by_number(names: dict[int, str]) -> None: ...
def of_nodes(root: Node) -> None: ...
def unresolved(x: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def no_type(x: [int]) -> None: ...  # type: ignore[valid-type]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (any_number, "\"*numbers: 'int'\" of it cannot be described in a JSON Schema"),
        (anything, "\"**options: 'int'\" of it cannot be described in a JSON Schema"),
        (of_bytes, '"data" of it has the type bytes, which has no JSON equivalent'),
        (by_number, '"names" of it has the type dict[int, str], which has no JSON equivalent'),
        (of_nodes, '"children" of Node has the type Node, which contains itself'),
        (unresolved, "the type hints of it cannot be read: name 'NoSuchType' is not defined"),
        (no_type, "\"x\" of it has the type [<class 'int'>], which is not a type"),
    ],
)
def test_what_json_cannot_say_is_refused_where_the_tool_is_defined(
    function: Any, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        PythonFunction(function, "it")
    assert caught.value.message == text


def wanted(**hints: Any) -> dict[str, Parameter]:
    return {name: Parameter(shape(hint, name)) for name, hint in hints.items()}


def mistakes(arguments: dict[str, Any], **hints: Any) -> str:
    with pytest.raises(ToolError) as caught:
        check(arguments, wanted(**hints))
    return str(caught.value)


@pytest.mark.req("X-38")
def test_every_mistake_is_told_at_once_and_says_what_to_mend() -> None:
    given_ = {"cty": "Bonn", "days": "three", "points": [{"x": 1}, {"x": None, "z": 2}]}
    text = mistakes(given_, city=str, days=int, points=list[Point])
    assert text == (
        'wrong arguments: unexpected "cty" (did you mean "city"?); '
        '"city" is missing (a string); '
        '"days" must be an integer, not "three"; '
        'unexpected "points[1].z" (expected "x", "y"); '
        '"points[1].x" is missing (a number). '
        "Correct all of them and call again"
    )


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (int, True, "an integer, not true"), (int, 2.5, "an integer, not 2.5"),
        (bool, 1, "true or false, not 1"),
        (float, "much", 'a number, not "much"'),
        (float, 10**400, "a number, not 1000"),
        (Colour, "blue", 'one of "red", "green", not "blue"'),
        (Literal[1, "1"], True, 'one of 1, "1", not true'),
        (list[int], {"a": 1}, 'a list, not {"a":1}'),
        (dict[str, int], [1], "an object, not [1]"),
        (tuple[int, str], [1], "a list of 2 values, not [1]"),
        (Point, "here", 'an object, not "here"'),
        (int | list[str], {"a": 1}, 'an integer or a list, not {"a":1}'),
        (list[int], "x" * 500, 'a list, not "' + "x" * 59 + "…"),
    ],
)  # fmt: skip
def test_a_mistake_names_what_was_wanted_and_what_came(hint: Any, value: Any, said: str) -> None:
    assert f'"it" must be {said}' in mistakes({"it": value}, it=hint)


def test_the_text_of_mistakes_has_a_bound() -> None:
    text = mistakes({"rows": [{"v": "x" * 10_000}] * 10_000, "k" * 99_999: 1}, rows=list[int])
    assert len(text) < 4_000
    assert "and more" in text


@pytest.mark.req("D-11")
@pytest.mark.parametrize(
    ("hint", "given_", "read"),
    [
        (str, 5, "5"), (str, {"a": [1, None]}, '{"a":[1,null]}'), (str, True, "true"),
        (int, "5", 5), (int, 5.0, 5), (bool, "true", True), (list[int], "[1, 2]", [1, 2]),
        (Point, '{"x": 1}', Point(1.0)), (str | None, None, None), (str | None, 7, "7"),
        (Colour, "RED", Colour.RED), (Level, "HIGH", Level.HIGH),
        (list[list[int]], [["7"], "[8]"], [[7], [8]]),
        (dict[str, bool], {"a": "true"}, {"a": True}), (tuple[int, str], ["7", 7], (7, "7")),
        (list[Point], [{"x": "1.5"}, '{"x": "2"}'], [Point(1.5), Point(2.0)]),
        (list[str] | list[int], [7], [7]),
    ],
)  # fmt: skip
def test_text_and_json_are_taken_for_one_another(hint: Any, given_: Any, read: Any) -> None:
    assert check({"it": given_}, wanted(it=hint)) == {"it": read}


@pytest.mark.req("D-11")
def test_null_is_absent_where_null_is_no_value() -> None:
    def function(a: str, b: int = 4, c: int | None = 5, d: int | None = None) -> None: ...

    known = PythonFunction(function, "f").parameters
    assert check({"a": "x", "b": None, "c": None}, known) == {"a": "x", "c": None}
    with pytest.raises(ToolError, match=r'"a" is missing \(a string\)'):
        check({"a": None}, known)


ROUTE = Route(
    "é\u2028", [Point(1.5), Point(-0.0, 1e300)], Colour.GREEN, {"": [1, -(10**30)]}, Point(2)
)
PLACES: Any = Literal["a", "b", 1, True, None]


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (list[Route], [ROUTE, Route("", [])]), (dict[str, Route | None], {"a": ROUTE, "b": None}),
        (tuple[Size, Level], (Size.L, Level.HIGH)), (tuple[Point, ...], (Point(1.0), Point(2.0))),
        (list[PLACES], ["a", 1, True, None]), (dict[str, list[Colour]], {"é": [Colour.RED]}),
        (Level | None, None), (list[bool], [True, False]), (float, 0.1), (Size, Size.S),
    ],
)  # fmt: skip
def test_a_value_goes_to_json_and_comes_back_equal(hint: Any, value: Any) -> None:
    known = wanted(it=hint)
    wire = json.loads(json.dumps({"it": jsonable(value)}))
    read = check(wire, known)["it"]
    assert (read, type(read)) == (value, type(value))
    jsonschema.validate(wire, {"type": "object", "properties": {"it": known["it"].schema}})


@pytest.mark.parametrize(
    "text",
    [
        "Adds two\nnumbers.\n\nParameters\n----------\na : int\n    The first,\n    from 0.\n"
        "b : int, optional\n    The second: 1 to 7.\n",
        "Adds two\nnumbers.\n\n:param a: The first,\n    from 0.\n"
        ":param int b: The second: 1 to 7.",
    ],
    ids=["NumPy", "reST"],
)
def test_parameters_are_described_in_other_styles_of_docstrings(text: str) -> None:
    def add(a: int, b: int = 1) -> int:
        return a + b

    add.__doc__ = text
    properties = schema_of(add)["properties"]
    described = {name: one["description"] for name, one in properties.items()}
    assert described == {"a": "The first, from 0.", "b": "The second: 1 to 7."}
    assert PythonFunction(add, "add").description == "Adds two numbers."
