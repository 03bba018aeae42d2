"""Types of pydantic as structured output; pydantic is used only if the user's code has it.

Source: product.md "Python" (`output=`).
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from axe_nb.errors import ConfigError
from axe_nb.messages import dump
from axe_nb.text import one_line
from axe_nb.tools.json_types import Mistakes, is_record, note


def is_used(given: Any) -> bool:
    """True if a type is a model or dataclass of pydantic, or has one in it at any depth."""
    return "pydantic" in sys.modules and _is_used(given, set())


def _is_used(given: Any, seen: set[Any]) -> bool:
    """As `is_used`; records that were seen, which may hold themselves, are not read again."""
    if isinstance(given, type) and hasattr(given, "__pydantic_core_schema__"):
        return True
    parts, kind = [*typing.get_args(given)], typing.get_origin(given) or given
    if is_record(given) and kind not in seen:
        seen.add(kind)
        with suppress(Exception):  # those that cannot be read are told where the type is described
            parts += typing.get_type_hints(kind).values()
    return any(_is_used(part, seen) for part in parts)


def read(given: Any, where: str) -> tuple[Mapping[str, Any], Callable[[Any, Mistakes], Any]]:
    """Returns the JSON Schema of a type, and what makes a value of it from JSON data.

    Raises:
        ConfigError: pydantic cannot describe it.
    """
    import pydantic

    try:
        adapter = pydantic.TypeAdapter(given)
        schema = adapter.json_schema()
    except (pydantic.errors.PydanticUserError, TypeError, NameError) as error:
        said = one_line(getattr(error, "message", str(error)), 200)
        raise ConfigError(f"{where} cannot be described as a JSON Schema: {said}") from None

    def convert(data: Any, mistakes: Mistakes) -> Any:
        try:
            return adapter.validate_json(dump(data))
        except pydantic.ValidationError as error:
            for mistake in error.errors(include_url=False, include_context=False):
                note(mistakes, f"{_format_place(mistake['loc'])}: {mistake['msg']}")
        except Exception as error:  # a validator of the user's own
            note(mistakes, f"data: {one_line(str(error), 200)}")
        return None

    return schema, convert


def _format_place(steps: tuple[int | str, ...]) -> str:
    return "data" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
