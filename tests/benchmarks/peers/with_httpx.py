"""httpx and json alone: the requests that the task needs, and no framework."""

import asyncio
import json
import os

import httpx

HEADERS = {"content-type": "application/json"}
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)
CLIENT = httpx.AsyncClient(base_url=os.environ["MODEL_URL"], timeout=None, limits=LIMITS)


async def send(model, messages):
    body = json.dumps({"model": model, "messages": messages}, separators=(",", ":"))
    reply = await CLIENT.post("/v1/chat/completions", content=body, headers=HEADERS)
    return reply.json()["choices"][0]["message"]


async def ask():
    return (await send("child-0", [{"role": "user", "content": "go"}]))["content"]


async def run(model, tool):
    messages = [{"role": "user", "content": "go"}]
    while True:
        message = await send(model, messages)
        messages.append(message)
        calls = message.get("tool_calls", ())
        if not calls:
            return message["content"]
        results = await asyncio.gather(
            *(tool(**json.loads(call["function"]["arguments"])) for call in calls)
        )
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": result}
            for call, result in zip(calls, results, strict=True)
        ]


async def nothing():
    return "ok"


async def chain(turns):
    return await run(f"chain-{turns - 1}-0", nothing)


async def fan_out(children, seconds):
    async def call_agent(agent, task):
        return (await send(f"child-{seconds}", [{"role": "user", "content": task}]))["content"]

    return await run(f"lead-{children}-{seconds}", call_agent)


async def one(prompt, seconds):
    return (await send(f"child-{seconds}", [{"role": "user", "content": prompt}]))["content"]


async def go_on(memory):
    return (await send("child-0", [*memory, {"role": "user", "content": "go"}]))["content"]
