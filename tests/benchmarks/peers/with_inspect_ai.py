"""inspect_ai: agents around `generate_loop`, one a tool of the other; many prompts are an eval."""

import os
from functools import cache

from inspect_ai import Task, eval_async
from inspect_ai.agent import AgentState, agent, as_tool, run
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, GenerateConfig, get_model
from inspect_ai.tool import ToolDef, tool

os.environ["INSPECT_DISPLAY"] = "none"
URL = os.environ["MODEL_URL"] + "/v1"


@cache
def model(name):
    return get_model(
        f"openai-api/local/{name}", base_url=URL, api_key="none",
        config=GenerateConfig(max_connections=1000),
    )  # fmt: skip


@agent(name="child", description="Calls an agent.")
def loop(name, tools=()):
    async def execute(state: AgentState) -> AgentState:
        """Calls an agent."""
        messages, state.output = await model(name).generate_loop(state.messages, list(tools))
        state.messages.extend(messages)
        return state

    return execute


async def finish(agent, asked):
    return (await run(agent, asked)).output.completion


@tool
def nothing():
    async def execute() -> str:
        """Does nothing."""
        return "ok"

    return execute


async def ask():
    return await finish(loop("child-0"), "go")


async def chain(turns):
    return await finish(loop(f"chain-{turns - 1}-0", [nothing()]), "go")


@cache
def lead(children, seconds):
    child = ToolDef(as_tool(loop(f"child-{seconds}")), parallel=True)
    return loop(f"lead_input-{children}-{seconds}", [child])


async def fan_out(children, seconds):
    return await finish(lead(children, seconds), "go")


async def many(prompts, at_once, seconds):
    samples = [Sample(input=prompt) for prompt in prompts]
    (log,) = await eval_async(
        Task(dataset=samples), model=model(f"child-{seconds}"), max_connections=at_once,
        max_samples=at_once, log_dir=os.environ["TMPDIR"],
    )  # fmt: skip
    return [sample.output.completion for sample in log.samples]


SAY = (lambda text: ChatMessageUser(content=text), lambda text: ChatMessageAssistant(content=text))


async def go_on(memory):
    return await finish(loop("child-0"), [*memory, ChatMessageUser(content="go")])
