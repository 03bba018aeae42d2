"""axe_nb with its defaults: each run is kept in the history."""

import os
from dataclasses import replace
from functools import partial

os.environ |= {"AXE_OPENAI_BASE_URL": os.environ["MODEL_URL"], "OPENAI_API_KEY": "none"}

import axe_nb
from axe_nb import Agent
from axe_nb.messages import Message


async def ask():
    return (await axe_nb.arun(Agent("child", "openai/child-0"), "go")).text


async def chain(turns):
    async def nothing() -> str:
        """Does nothing."""
        return "ok"

    one = Agent("one", f"openai/chain-{turns - 1}-0", tools=(axe_nb.tool(nothing),))
    return (await axe_nb.arun(one, "go")).text


async def fan_out(children, seconds):
    axe_nb.define(Agent("child", f"openai/child-{seconds}"))
    limits = {"max_requests": 0, "max_calls_per_reply": 0, "max_in_flight": 0}
    lead = Agent("lead", f"openai/lead-{children}-{seconds}", sub_agents=("child",), limits=limits)
    return (await axe_nb.arun(lead, "go")).text


def many(prompts, at_once, seconds):
    child = Agent("child", f"openai/child-{seconds}")
    return [one.text for one in axe_nb.map(child, prompts, concurrency=at_once, display=False)]


SAY = partial(Message, "user"), partial(Message, "assistant")


async def remember(messages):
    axe_nb.script("child")(lambda request: "done")  # sends nothing
    done = await axe_nb.arun(Agent("child", "script/child"), "go")
    return replace(done, messages=tuple(messages))


async def go_on(memory):
    child = Agent("child", "openai/child-0")
    return (await axe_nb.arun(child, "go", continue_from=memory)).text
