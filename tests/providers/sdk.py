"""Request bodies held against the types of the providers' own SDKs."""

from __future__ import annotations

import copy
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from axe_nb.messages import Request
from axe_nb.providers import openai
from tests.providers.dialects import MODULES

BODIES = {name: module.body for name, module in MODULES.items()}
"""Protocol → what encodes its requests."""

PARAMETERS = ("type", "$defs", "items", "required", "properties")
"""Keywords of a tool's parameters that Ollama's own library knows."""

SCHEMA = ("type", "items", "description", "enum")
"""Keywords of a parameter's schema that Ollama knows."""


def takes(protocol: str, body: Mapping[str, Any]) -> None:
    """Fails where the SDK's types have no room for a part of the body, or another type for it."""
    CHECKS[protocol](body)


@contextmanager
def watching() -> Iterator[None]:
    """Holds every body that is encoded meanwhile against the SDKs' types, but for the params.

    These are the user's, and passed on whatever they are.
    """
    seen: dict[bytes, tuple[str, Request]] = {}

    def encode(name: str, own: Callable[..., bytes], request: Request, *more: Any) -> bytes:
        body = own(request, *more)
        seen[body] = name, request
        return body

    with pytest.MonkeyPatch.context() as patch:
        for name, module in MODULES.items():
            own = module.PROVIDER.body
            patch.setattr(module.PROVIDER, "body", staticmethod(partial(encode, name, own)))
        yield
    for body, (name, request) in seen.items():
        takes(name, _without_params(json.loads(body), request))


def _without_params(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """The body without what the user has set, but with what every body has."""
    renamed = {"max_completion_tokens", "max_output_tokens", "options"}
    given = {*request.params, *renamed} if request.params else set()
    kept = {key: value for key, value in body.items() if key not in given}
    return {"max_tokens": 1, **kept} if "max_tokens" in body else kept


@cache
def _load(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(pkgutil.resolve_name(kind))


def _without_extensions(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body without what other servers of the protocol have added to it, and want back."""
    body = copy.deepcopy(dict(body))
    for message in body["messages"]:
        for key in openai.REASONING:
            message.pop(key, None)
        for call in message.get("tool_calls", ()):
            call.pop(openai.SIGNED, None)
    return body


def _as_typed(kind: str, body: Mapping[str, Any]) -> None:
    read = _load(kind).validate_python(body)
    assert _consumed(read) == body, "the SDK knows less than was sent"


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
    from ollama._types import ChatRequest, Image, Message

    body = copy.deepcopy(dict(body))
    for entry in body["messages"]:  # which the SDK writes as text, but does not read as such
        images = entry.pop("images", [])
        assert [Image(value=image).model_dump() for image in images] == images
    for entry in body.get("tools", ()):
        given = entry["function"]["parameters"]
        # a server leaves other keywords out itself
        parameters = {key: given[key] for key in PARAMETERS if key in given}
        entry["function"]["parameters"] = parameters
        properties = parameters.get("properties", {})
        for name, schema in properties.items():
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
    "anthropic": partial(_as_typed, "anthropic.types.message_create_params.MessageCreateParams"),
    "openai": lambda body: _as_typed(
        "openai.types.chat.completion_create_params.CompletionCreateParams",
        _without_extensions(body),
    ),
    "responses": partial(
        _as_typed, "openai.types.responses.response_create_params.ResponseCreateParams"
    ),
    "ollama": _ollama,
}
