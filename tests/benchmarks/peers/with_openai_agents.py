"""openai-agents: a lead that has another agent as a tool (`Agent.as_tool`)."""

import os
from functools import cache

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
CLIENT = AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="none")


def agent(model, tools=()):
    model = OpenAIChatCompletionsModel(model=model, openai_client=CLIENT)
    return Agent(name="one", model=model, tools=list(tools))


@function_tool
async def nothing() -> str:
    """Does nothing."""
    return "ok"


@cache
def child_agent(seconds):
    return agent(f"child-{seconds}")


async def ask():
    return (await Runner.run(child_agent(0), "go")).final_output


@cache
def chain_agent(turns):
    return agent(f"chain-{turns - 1}-0", (nothing,))


async def chain(turns):
    return (await Runner.run(chain_agent(turns), "go", max_turns=turns + 1)).final_output


@cache
def lead_agent(children, seconds):
    child = child_agent(seconds).as_tool("child", "Calls an agent.")
    return agent(f"lead_input-{children}-{seconds}", (child,))


async def fan_out(children, seconds):
    return (await Runner.run(lead_agent(children, seconds), "go")).final_output


async def one(prompt, seconds):
    return (await Runner.run(child_agent(seconds), prompt)).final_output


async def go_on(memory):
    asked = [*memory, {"role": "user", "content": "go"}]
    return (await Runner.run(child_agent(0), asked)).final_output
