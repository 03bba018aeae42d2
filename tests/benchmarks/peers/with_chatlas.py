"""chatlas: a chat with tools; a tool asks another chat."""

import os
from functools import cache

from chatlas import AssistantTurn, ChatOpenAICompletions, UserTurn, parallel_chat

URL = os.environ["MODEL_URL"] + "/v1"


@cache
def chat(model):
    return ChatOpenAICompletions(base_url=URL, model=model, api_key="none")


async def say(chat, prompt, turns=()):
    chat.set_turns(list(turns))
    reply = await chat.chat_async(prompt, stream=False, echo="none")
    return await reply.get_content() if hasattr(reply, "get_content") else str(reply)


async def ask():
    return (await say(chat("child-0"), "go")).strip()


@cache
def chain_chat(turns):
    one = chat(f"chain-{turns - 1}-0")

    async def nothing() -> str:
        """Does nothing."""
        return "ok"

    one.register_tool(nothing)
    return one


async def chain(turns):
    one = chain_chat(turns)
    await say(one, "go")
    return one.get_last_turn().text


@cache
def lead_chat(children, seconds):
    lead = chat(f"lead-{children}-{seconds}")
    child = chat(f"child-{seconds}")

    async def call_agent(agent: str, task: str) -> str:
        """Calls an agent."""
        return await say(child, task)

    lead.register_tool(call_agent)
    return lead


async def fan_out(children, seconds):
    lead = lead_chat(children, seconds)
    await say(lead, "go")
    return lead.get_last_turn().text


async def many(prompts, at_once, seconds):
    found = await parallel_chat(
        chat(f"child-{seconds}"), list(prompts), max_active=at_once, rpm=10**9
    )
    return [one.get_last_turn().text for one in found]


SAY = UserTurn, AssistantTurn


async def go_on(memory):
    return (await say(chat("child-0"), "go", memory)).strip()
