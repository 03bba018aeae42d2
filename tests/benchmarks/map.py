"""`python -m tests.benchmarks.map`: 10,000 prompts through a map, a model that takes a second.

The model is a server of OpenAI's protocol in a process of its own. Prints the rows of goals.md:
these prompts, the same with a resume file, and 1 % of slow prompts. `… map 2000` asks fewer, and
`… map scale` 100,000 prompts at 0 ms and a file with a million results.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.goals import row
from tests.benchmarks.http_server import HttpServer, own_process, serve

PROMPTS = 10_000
CONCURRENCY = 1000
SECONDS = 1.0

SLOWER = 100
"""Times that a slow prompt takes longer."""


class Model(HttpServer):
    seconds = SECONDS

    def answer(self, head: bytes, body: bytes) -> None:
        prompt = json.loads(body)["messages"][-1]["content"]
        seconds = self.seconds * (SLOWER if prompt.startswith("slow") else 1)
        usage = {"prompt_tokens": 9, "completion_tokens": 9}
        reply = {"choices": [{"message": {"content": "done"}}], "usage": usage}
        asyncio.get_running_loop().call_later(seconds, self.send, json.dumps(reply).encode())


@contextlib.contextmanager
def model(seconds: float) -> Iterator[None]:
    """A model in a process of its own, as OpenAI."""
    with own_process(__spec__.name, "serve", str(seconds)) as url:
        os.environ |= {"AXE_OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
        yield


def make_prompts(number: int) -> Iterator[str]:
    """Prompts of about 120 characters."""
    return (f"{n}: {'what changed since yesterday? ' * 4}" for n in range(number))


def ask(number: int, model: str = "openai/one", **options: Any) -> dict[str, float]:
    """Seconds, and peak memory in megabytes, of a map over so many prompts."""
    import axe_nb

    axe_nb.script("echo")(lambda request: "done")
    agent = axe_nb.Agent(name="one", model=model)
    if not model.startswith("script"):
        list(axe_nb.map(agent, ["warm up"], display=False))
    began, cpu = time.perf_counter(), time.process_time()
    results = iter(axe_nb.map(agent, make_prompts(number), display=False, **options))
    assert next(results).text == "done"
    first = time.perf_counter() - began
    assert sum(result.text == "done" for result in results) == number - 1
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu": cpu, "first": first, "peak": peak}


def compare_orders(number: int = 1000, at_once: int = 20, seconds: float = 0.05) -> None:
    """Asks prompts of which one in a hundred is slow, with `for` and with `async for`.

    They are among the first tenth: a slow one at the end would be waited for in any order.
    """
    import axe_nb

    agent = axe_nb.Agent(name="one", model="openai/one")
    slow = range(5, number // 10, 10)
    prompts = [f"{'slow' if n in slow else 'quick'} {n}" for n in range(number)]
    ideal = seconds * number * (1 + (SLOWER - 1) / 100) / at_once

    async def ask_later() -> None:
        async for _ in axe_nb.map(agent, prompts, concurrency=at_once, display=False):
            pass

    began = time.perf_counter()
    list(axe_nb.map(agent, prompts, concurrency=at_once, display=False))
    took = time.perf_counter() - began
    asyncio.run(ask_later())
    later = time.perf_counter() - began - took
    shown = f"{took:.1f} s (`async for` {later:.1f} s, ideal {ideal:.1f} s)"
    row("1 % slow prompts, `for`", shown, took / ideal, 1.3, 1.1, " x")


def apart(number: int, **options: Any) -> dict[str, float]:
    words = [sys.executable, "-m", __spec__.name, "ask", str(number), json.dumps(options)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def ask_script(number: int, path: Path) -> dict[str, float]:
    return apart(number, model="script/echo", keep="nothing", resume=str(path))


def scale(number: int = 100_000) -> None:
    """Asks so many prompts at 0 ms, a tenth of them for comparison, and all of them once more."""
    with tempfile.TemporaryDirectory() as folder:
        few = ask_script(number // 10, Path(folder, "few"))
        path = Path(folder, "runs.jsonl")
        many = ask_script(number, path)
        ratio = many["cpu"] / few["cpu"] / 10
        shown = f"{many['seconds']:.1f} s (CPU {many['cpu']:.1f} s, {ratio:.2f} x linear)"
        row(f"{number} at 0 ms", shown, ratio, 1.2, 1.1, " x linear")
        row("peak memory", f"{many['peak']:.0f} MB", many["peak"], 300, 150, " MB")
        again = ask_script(number, path)
        shown = f"{again['first']:.1f} s, all {again['seconds']:.1f} s, {again['peak']:.0f} MB"
        row("resumed once: first result", shown, again["first"], 10, 10, " s")
        with path.open("r+") as file:
            lines = file.readlines()[: number // 100]
            file.truncate(0)
            file.seek(0)
            file.write(lines[0])
            for n in range(1_000_000):
                line = lines[1 + n % (len(lines) - 1)]
                file.write(f'{{"key":"{n:032x}{line[line.index(chr(34) + ",") :]}')
        took = ask_script(1, path)
        shown = f"{took['first']:.1f} s, {path.stat().st_size >> 20} MB, peak {took['peak']:.0f} MB"
        row("a million results: first result", shown, took["first"], 10, 10, " s")


def main(number: int) -> None:
    os.environ |= {"AXE_NB_HISTORY": "0"}
    with model(SECONDS):
        took = apart(number, concurrency=CONCURRENCY)
        shown = f"{took['seconds']:.1f} s (CPU {took['cpu']:.1f} s)"
        row(f"map of {number}", shown, took["seconds"], 16, 11, " s")
        row("peak memory", f"{took['peak']:.0f} MB", took["peak"], 200, 100, " MB")
        with tempfile.TemporaryDirectory() as folder:
            took = apart(number, concurrency=CONCURRENCY, resume=f"{folder}/runs.jsonl")
            shown = f"{took['seconds']:.1f} s (CPU {took['cpu']:.1f} s)"
            row("with a resume file", shown, took["seconds"], 16, 11, " s")
    with model(0.05):
        compare_orders()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", seconds]:
            Model.seconds = float(seconds)
            asyncio.run(serve(Model))
        case ["ask", number, options]:
            print(json.dumps(ask(int(number), **json.loads(options))))
        case ["scale"]:
            os.environ["AXE_NB_HISTORY"] = "0"
            scale()
        case numbers:
            main(int(numbers[0]) if numbers else PROMPTS)
