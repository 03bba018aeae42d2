"""What the page says of LangGraph, tried."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from with_langgraph import URL, nothing

PLACE = {"configurable": {"thread_id": "one"}}


def make(model, tools=(), **options):
    model = ChatOpenAI(model=model, base_url=URL, api_key="none")
    return create_agent(model, list(tools), **options)


async def offline_model():
    model = GenericFakeChatModel(messages=iter([AIMessage("done")]))
    found = await create_agent(model, []).ainvoke({"messages": "go"})
    assert found["messages"][-1].content == "done"


async def approval():
    ran = []

    @tool("nothing")
    async def delete() -> str:
        """Deletes."""
        ran.append("it")
        return "ok"

    asks = HumanInTheLoopMiddleware(interrupt_on={"nothing": True})
    one = make("chain-1-0", [delete], middleware=[asks], checkpointer=InMemorySaver())
    paused = await one.ainvoke({"messages": "go"}, PLACE)
    assert paused["__interrupt__"]
    no = Command(resume={"decisions": [{"type": "reject"}]})
    found = await one.ainvoke(no, PLACE)
    assert found["messages"][-1].content == "done"
    assert not ran


async def limit():
    most = ModelCallLimitMiddleware(run_limit=3, exit_behavior="error")
    try:
        await make("chain-9-0", [nothing], middleware=[most]).ainvoke({"messages": "go"})
    except ModelCallLimitExceededError:
        return
    raise AssertionError("no limit")


async def saved():
    saver = InMemorySaver()
    await make("child-0", checkpointer=saver).ainvoke({"messages": "go"}, PLACE)
    found = await make("child-0", checkpointer=saver).ainvoke({"messages": "more"}, PLACE)
    assert len(found["messages"]) == 4


async def fork():
    one = make("chain-3-0", [nothing], checkpointer=InMemorySaver())
    await one.ainvoke({"messages": "go"}, PLACE)
    states = [state async for state in one.aget_state_history(PLACE)]
    middle = states[len(states) // 2]
    again = await one.ainvoke(None, middle.config)
    assert again["messages"][-1].content == "done"
