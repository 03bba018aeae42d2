"""What the page says of pydantic-ai, tried."""

from dataclasses import dataclass

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ToolDenied,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.test import TestModel
from with_pydantic_ai import agent


@dataclass
class City:
    name: str


async def typed_answer():
    found = await Agent(TestModel(), output_type=City).run("go")
    assert isinstance(found.output, City)


async def offline_model():
    assert (await Agent(TestModel(custom_output_text="done")).run("go")).output == "done"


async def approval():
    one = Agent(TestModel(), output_type=[str, DeferredToolRequests])
    ran = []

    @one.tool_plain(requires_approval=True)
    def delete() -> str:
        ran.append("it")
        return "ok"

    paused = await one.run("go")
    (call,) = paused.output.approvals
    answers = DeferredToolResults(approvals={call.tool_call_id: ToolDenied("no")})
    await one.run(message_history=paused.all_messages(), deferred_tool_results=answers)
    assert not ran


async def limit():
    one = agent("chain-9-0")

    @one.tool_plain
    def nothing() -> str:
        return "ok"

    try:
        await one.run("go", usage_limits=UsageLimits(request_limit=3))
    except UsageLimitExceeded:
        return
    raise AssertionError("no limit")


async def saved():
    first = await agent("child-0").run("go")
    history = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    again = await agent("child-0").run("more", message_history=history)
    assert len(again.all_messages()) == 4


async def fork():
    one = Agent(TestModel())
    ran = []

    @one.tool_plain
    def nothing() -> str:
        ran.append("it")
        return "ok"

    first = await one.run("go")
    again = await one.run(message_history=first.all_messages()[:3])
    assert len(again.all_messages()) == 4
    assert ran == ["it"], "what came before is not done again"
