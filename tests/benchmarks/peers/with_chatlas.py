"""chatlas: a chat with tools; a tool asks another chat."""

import os

from chatlas import AssistantTurn, ChatOpenAICompletions, UserTurn, parallel_chat

URL = os.environ["MODEL_URL"] + "/v1"


def chat(model):
    return ChatOpenAICompletions(base_url=URL, model=model, api_key="none")


async def say(chat, prompt):
    reply = await chat.chat_async(prompt, stream=False, echo="none")
    return await reply.get_content() if hasattr(reply, "get_content") else str(reply)


CHILDREN = {}


async def ask():
    return (await say(chat("child-0"), "go")).strip()


async def chain(turns):
    one = chat(f"chain-{turns - 1}-0")

    async def nothing() -> str:
        """Does nothing."""
        return "ok"

    one.register_tool(nothing)
    await say(one, "go")
    return one.get_last_turn().text


async def fan_out(children, seconds):
    lead = chat(f"lead-{children}-{seconds}")
    child = chat(f"child-{seconds}")

    async def call_agent(agent: str, task: str) -> str:
        """Calls an agent."""
        child.set_turns([])
        return await say(child, task)

    lead.register_tool(call_agent)
    await say(lead, "go")
    return lead.get_last_turn().text


async def many(prompts, at_once, seconds):
    found = await parallel_chat(
        chat(f"child-{seconds}"), list(prompts), max_active=at_once, rpm=10**9
    )
    return [one.get_last_turn().text for one in found]


def remember(exchanges):
    return [
        turn
        for n in range(exchanges)
        for turn in (UserTurn(f"Question {n}"), AssistantTurn(f"Answer {n}"))
    ]


async def go_on(memory):
    one = chat("child-0")
    one.set_turns(memory)
    return (await say(one, "go")).strip()
