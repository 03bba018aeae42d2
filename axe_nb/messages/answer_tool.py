"""A tool whose arguments are the model's answer, for servers without structured output.

The model must call the tool, unless it has other tools, uses thinking, or runs on a server that
refuses to force a call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from axe_nb.messages import Request, Response, ToolSpec, dump
from axe_nb.messages.model_table import thinks

NAME = "give_answer"
DESCRIPTION = "Gives your final answer. Call it once, when you have everything; then you are done."

OUTPUT = "output"
"""Entry in `Request.refused` for the schema of the answer, which the answer tool then replaces."""

FORCED = "tool_choice"
"""Entry in `Request.refused` if calls cannot be forced; the answer tool is then only offered."""


def leave_out(request: Request, refused: Iterable[str]) -> Request:
    """Returns the request, marked to be sent without the `refused` parts."""
    request = replace(request, refused=frozenset(refused))
    return with_answer_tool(request) if OUTPUT in request.refused else request


def with_answer_tool(request: Request) -> Request:
    """Returns the request with the answer tool in place of the answer's schema.

    The model must call the tool, unless there are other tools, the server refuses to force a call,
    or the model thinks, as servers do not force a thinking model to call a tool.
    """
    if request.output is None:
        return request
    tool = ToolSpec(NAME, DESCRIPTION, {}, schema=request.output)
    may_force = FORCED not in request.refused and not request.tools
    must_call = NAME if may_force and not thinks(request.model, request.params) else ""
    return replace(request, tools=(*request.tools, tool), output=None, must_call=must_call)


def has_answer_tool_alone(request: Request) -> bool:
    return [tool.description for tool in request.tools] == [DESCRIPTION]


def take_answer(request: Request, response: Response) -> Response:
    """Returns the response with the arguments of its answer tool call as the text.

    If the reply also calls other tools, the answer came too early, and the call to the answer tool
    is dropped. `request` is the original request, in which `output` is set.
    """
    if request.output is None or not response.tool_calls:
        return response
    others = tuple(call for call in response.tool_calls if call.name != NAME)
    if len(others) == len(response.tool_calls):
        return response
    if others:
        return replace(response, tool_calls=others)
    answer = response.tool_calls[-1]
    text = answer.raw or dump(dict(answer.arguments)).decode()
    return replace(response, content=text, tool_calls=(), echo={})
