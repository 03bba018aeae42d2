"""What the page says of inspect_ai, tried."""

from pathlib import Path

from inspect_ai import Task, eval_async
from inspect_ai.agent import run
from inspect_ai.approval import ApprovalPolicy, auto_approver
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ChatMessage, ChatMessageUser, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import LimitExceededError, message_limit
from pydantic import TypeAdapter
from with_inspect_ai import fan_out, finish, loop, model, nothing


async def offline_model():
    output = ModelOutput.from_content("model", "done")
    output.usage = ModelUsage(input_tokens=9, output_tokens=9)  # else it downloads a tokenizer
    made = get_model("mockllm/model", custom_outputs=[output])
    assert (await made.generate("go")).completion == "done"


async def limit():
    try:
        with message_limit(5):
            await finish(loop("chain-9-0", [nothing()]), "go")
    except LimitExceededError:
        return
    raise AssertionError("no limit")


async def approval():
    ran = []

    @tool(name="nothing")
    def delete():
        async def execute() -> str:
            """Deletes."""
            ran.append("it")
            return "ok"

        return execute

    task = Task(dataset=[Sample(input="go")], solver=[use_tools(delete()), generate()])
    policy = ApprovalPolicy(auto_approver("reject"), "*")
    await eval_async(task, model=model("chain-1-0"), approval=[policy], log_dir=str(Path.cwd()))
    assert not ran


async def scores():
    task = Task(dataset=[Sample(input="go", target="done")], scorer=match())
    (log,) = await eval_async(task, model=model("child-0"), log_dir=str(Path.cwd()))
    again = read_eval_log(log.location)
    figures = again.results.scores[0].metrics
    assert figures["accuracy"].value == 1
    assert "stderr" in figures


async def agent_as_tool():
    assert await fan_out(2, 0) == "done"


async def saved():
    first = await run(loop("child-0"), "go")
    kind = TypeAdapter(list[ChatMessage])
    kept = kind.validate_json(kind.dump_json(first.messages))
    second = await run(loop("child-0"), [*kept, ChatMessageUser(content="more")])
    assert len(second.messages) == 4
