"""Models that cannot use tools, told from parameters that a server refuses."""

from __future__ import annotations

import json

import pytest

from axe_nb.agents.provider_table import PROVIDERS
from axe_nb.errors import ProviderError
from axe_nb.providers.reply_errors import read_reply
from tests.providers.dialects import CALL_AGENT, ask

TOOLS = ask(tools=(CALL_AGENT,))


@pytest.mark.req("D-30")
@pytest.mark.parametrize(
    "message",
    [
        "m does not support tools", "m does not support function calling",
        "tools are not supported by this model", "Tool use is not supported",
        "there is no support for tools",
        "function_call is not supported", "tool_calls are not supported",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    ],
)  # fmt: skip
def test_a_model_that_cannot_use_tools_is_named(message: str) -> None:
    body = json.dumps({"error": {"message": message, "param": None}}).encode()
    with pytest.raises(ProviderError, match='model "m" cannot use tools: ') as raised:
        read_reply(PROVIDERS["openai"], 400, {}, body, request=TOOLS)
    assert raised.value.hint.startswith("choose another model")
    with pytest.raises(ProviderError) as raised:
        read_reply(PROVIDERS["openai"], 400, {}, body, request=ask())
    assert "cannot use" not in raised.value.message


@pytest.mark.req("D-30")
@pytest.mark.parametrize(
    ("message", "parameter"),
    [
        ("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
         "parallel_tool_calls"),
        ("tool_choice 'required' is not supported", "tool_choice"),
        ("Function tools with reasoning_effort are not supported for m", "reasoning_effort"),
        ("tool_choice 'required' is not supported", None),
        ("m does not support parallel tool calls", None),
        ("a toolbox is not supported", None),
    ],
)  # fmt: skip
def test_a_refused_parameter_about_tools_is_no_model_without_them(
    message: str, parameter: str | None
) -> None:
    body = json.dumps({"error": {"message": message, "param": parameter}}).encode()
    with pytest.raises(ProviderError) as raised:
        read_reply(PROVIDERS["openai"], 400, {}, body, request=TOOLS)
    assert raised.value.detail == message
