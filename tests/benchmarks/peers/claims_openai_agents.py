"""What the page says of openai-agents, tried."""

from agents import Agent, MaxTurnsExceeded, Runner, SQLiteSession, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from with_openai_agents import agent, fan_out, nothing


async def approval():
    ran = []

    @function_tool(name_override="nothing", needs_approval=True)
    async def delete() -> str:
        ran.append("it")
        return "ok"

    one = agent("chain-1-0", (delete,))
    paused = await Runner.run(one, "go")
    (waiting,) = paused.interruptions
    state = paused.to_state()
    state.reject(waiting)
    assert (await Runner.run(one, state)).final_output == "done"
    assert not ran


async def limit():
    try:
        await Runner.run(agent("chain-9-0", (nothing,)), "go", max_turns=3)
    except MaxTurnsExceeded:
        return
    raise AssertionError("no limit")


async def saved():
    session = SQLiteSession("one", "session.sqlite")
    await Runner.run(agent("child-0"), "go", session=session)
    await Runner.run(agent("child-0"), "more", session=SQLiteSession("one", "session.sqlite"))
    assert len(await session.get_items()) == 4


async def offline_model():
    model = ScriptedModel([[assistant_message("done")]])
    assert (await Runner.run(Agent(name="one", model=model), "go")).final_output == "done"


async def handoff():
    call = [function_call("transfer_to_other", {}, call_id="1")]
    model = ScriptedModel([call, [assistant_message("done")]])
    other = Agent(name="other", model=model)
    found = await Runner.run(Agent(name="one", model=model, handoffs=[other]), "go")
    assert found.last_agent is other


async def agent_as_tool():
    assert await fan_out(2, 0) == "done"
