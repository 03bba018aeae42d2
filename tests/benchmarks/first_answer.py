"""`python -m tests.benchmarks.first_answer`: a new process to its first answer, beside plain httpx.

Each contender is a process of its own that asks a model once; the model takes no time and is
another process. They take turns, so that what disturbs one disturbs the other; the least of all
rounds counts. Prints a row of goals.md.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

from tests.benchmarks.fan_out import row, server

ROUNDS = 15

WITH_HTTPX = """
import asyncio, json, os, httpx
async def ask():
    url = os.environ["AXE_OPENAI_BASE_URL"]
    async with httpx.AsyncClient(base_url=url, timeout=None) as client:
        body = {"model": "child-0", "messages": [{"role": "user", "content": "go"}]}
        reply = await client.post("/v1/chat/completions", json=body)
        return reply.json()["choices"][0]["message"]["content"]
assert asyncio.run(ask()) == "done"
"""

WITH_AXE_NB = """
import axe_nb
assert axe_nb.run(axe_nb.Agent("child", "openai/child-0"), "go").text == "done"
"""


def took(script: str) -> tuple[float, float]:
    """(seconds, seconds of CPU) of a process that runs the script."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | NO_HISTORY)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu


NO_HISTORY = {"AXE_NB_HISTORY": "0"}


def main() -> None:
    with server():
        rounds = [[took(script) for script in (WITH_AXE_NB, WITH_HTTPX)] for _ in range(ROUNDS)]
    ours, theirs = (
        (min(s for s, _ in column), min(c for _, c in column))
        for column in zip(*rounds, strict=True)
    )
    ratio = ours[0] / theirs[0]
    shown = f"{ours[0] * 1000:.0f} ms, httpx {theirs[0] * 1000:.0f} ms: {ratio:.2f} x"
    shown += f" (CPU {ours[1] / theirs[1]:.2f} x)"
    row("first answer of a process", shown, ratio, 1.6, 1.4, " x httpx")


if __name__ == "__main__":
    main()
