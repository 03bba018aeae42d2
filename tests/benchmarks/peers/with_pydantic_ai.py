"""pydantic-ai: an agent whose tool runs another agent, as "Agent delegation" of its docs shows."""

import os
from functools import cache

from pydantic_ai import Agent, RunContext, UsageLimits
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

PROVIDER = OpenAIProvider(base_url=os.environ["MODEL_URL"] + "/v1", api_key="none")
NO_LIMITS = UsageLimits(request_limit=None)


@cache
def agent(model):
    return Agent(OpenAIChatModel(model, provider=PROVIDER))


async def ask():
    return (await agent("child-0").run("go")).output


@cache
def chain_agent(turns):
    one = agent(f"chain-{turns - 1}-0")

    @one.tool_plain
    async def nothing() -> str:
        """Does nothing."""
        return "ok"

    return one


async def chain(turns):
    return (await chain_agent(turns).run("go", usage_limits=NO_LIMITS)).output


@cache
def lead_agent(children, seconds):
    lead, child = agent(f"lead-{children}-{seconds}"), agent(f"child-{seconds}")

    @lead.tool
    async def call_agent(ctx: RunContext[None], agent: str, task: str) -> str:
        """Calls an agent."""
        return (await child.run(task, usage=ctx.usage, usage_limits=NO_LIMITS)).output

    return lead


async def fan_out(children, seconds):
    return (await lead_agent(children, seconds).run("go", usage_limits=NO_LIMITS)).output


async def one(prompt, seconds):
    return (await agent(f"child-{seconds}").run(prompt)).output


SAY = (
    lambda text: ModelRequest([UserPromptPart(text)]),
    lambda text: ModelResponse([TextPart(text)]),
)


async def go_on(memory):
    return (await agent("child-0").run("go", message_history=memory)).output
