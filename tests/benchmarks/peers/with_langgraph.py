"""LangGraph: `create_agent` of LangChain, which makes a graph; a tool runs another agent."""

import os
from functools import cache

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

os.environ["LANGSMITH_TRACING"] = "false"
URL = os.environ["MODEL_URL"] + "/v1"


def agent(model, tools=()):
    return create_agent(ChatOpenAI(model=model, base_url=URL, api_key="none"), list(tools))


async def run(agent, messages, **config):
    found = await agent.ainvoke({"messages": messages}, config)
    return found["messages"][-1].content


@tool
async def nothing() -> str:
    """Does nothing."""
    return "ok"


@cache
def child_agent(seconds):
    return agent(f"child-{seconds}")


@cache
def chain_agent(turns):
    return agent(f"chain-{turns - 1}-0", (nothing,))


async def ask():
    return await run(child_agent(0), "go")


async def chain(turns):
    return await run(chain_agent(turns), "go", recursion_limit=3 * turns)


@cache
def lead_agent(children, seconds):
    child = child_agent(seconds)

    @tool
    async def call_agent(agent: str, task: str) -> str:
        """Calls an agent."""
        return await run(child, task)

    return agent(f"lead-{children}-{seconds}", (call_agent,))


async def fan_out(children, seconds):
    return await run(lead_agent(children, seconds), "go")


async def many(prompts, at_once, seconds):
    states = [{"messages": prompt} for prompt in prompts]
    found = await child_agent(seconds).abatch(states, {"max_concurrency": at_once})
    return [state["messages"][-1].content for state in found]


SAY = HumanMessage, AIMessage


async def go_on(memory):
    return await run(child_agent(0), [*memory, HumanMessage("go")])
