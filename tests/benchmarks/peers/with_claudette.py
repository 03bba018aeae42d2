"""claudette: an asynchronous chat and its `toolloop`; a tool asks another chat."""

import os

from anthropic import AsyncAnthropic
from claudette import AsyncChat, AsyncClient, contents

SDK = AsyncAnthropic(base_url=os.environ["MODEL_URL"], api_key="none")


def chat(model, tools=None):
    return AsyncChat(cli=AsyncClient(model, cli=SDK), tools=tools)


async def run(model, tool):
    reply = None
    async for message in chat(model, [tool]).toolloop("go", max_steps=1000):
        reply = message
    return contents(reply)


async def nothing() -> str:
    """Does nothing."""
    return "ok"


async def ask():
    return contents(await chat("child-0")("go"))


async def chain(turns):
    return await run(f"chain-{turns - 1}-0", nothing)


async def fan_out(children, seconds):
    async def call_agent(agent: str, task: str) -> str:
        "Calls an agent."
        return contents(await chat(f"child-{seconds}")(task))

    return await run(f"lead-{children}-{seconds}", call_agent)


async def one(prompt, seconds):
    return contents(await chat(f"child-{seconds}")(prompt))


async def go_on(memory):
    one = chat("child-0")
    one.h = list(memory)
    return contents(await one("go"))
