"""Request bodies held against the types of the providers' own SDKs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter

SCHEMA = ("type", "items", "description", "enum")
"""Keywords of a parameter's schema that Ollama knows."""


def takes(protocol: str, body: Mapping[str, Any]) -> None:
    """Fails where the SDK's types have no room for a part of the body, or another type for it."""
    CHECKS[protocol](body)


@cache
def _anthropic() -> TypeAdapter[Any]:
    from anthropic.types.message_create_params import MessageCreateParams

    return TypeAdapter(MessageCreateParams)


@cache
def _openai() -> TypeAdapter[Any]:
    from openai.types.chat.completion_create_params import CompletionCreateParams

    return TypeAdapter(CompletionCreateParams)


def _as_typed(adapter: TypeAdapter[Any], body: Mapping[str, Any]) -> None:
    assert _consumed(adapter.validate_python(body)) == body, "the SDK knows less than was sent"


def _consumed(value: Any) -> Any:
    """The value whole: pydantic checks the parts of an Iterable only when they are asked for."""
    if isinstance(value, BaseModel):  # of a reply; the types take those back too
        return value.model_dump(exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _consumed(entry) for key, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_consumed(entry) for entry in value]
    return value


def _ollama(body: Mapping[str, Any]) -> None:
    from ollama._types import ChatRequest, Message

    body = copy.deepcopy(dict(body))
    for entry in body.get("tools", ()):
        properties = entry["function"]["parameters"]["properties"]
        for name, schema in properties.items():  # a server leaves other keywords out itself
            properties[name] = {key: schema[key] for key in SCHEMA if key in schema}
    request = ChatRequest.model_validate(body)
    assert request.model_dump(exclude_none=True, exclude={"messages"}) == {
        key: value for key, value in body.items() if key != "messages"
    }
    for entry in body["messages"]:
        known = Message.model_validate(entry).model_dump(exclude_none=True)
        # the server's, not yet the SDK's (ollama-python #667)
        sent = {key: value for key, value in entry.items() if key != "tool_call_id"}
        for call in sent.get("tool_calls", ()):
            call.pop("id", None)
        assert known == sent


CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "anthropic": lambda body: _as_typed(_anthropic(), body),
    "openai": lambda body: _as_typed(_openai(), body),
    "ollama": _ollama,
}
