"""Runs the tasks of one contender, in its own environment; the standard library alone.

Reads a line of JSON for each round, `[function, arguments]`, and prints one: seconds, seconds of
CPU of the process and its children, bytes by which its memory grew at most, and what there is
afterwards: objects, threads, modules.
"""

import asyncio
import gc
import importlib
import inspect
import json
import os
import resource
import sys
import threading
import time
from itertools import chain
from pathlib import Path


def read_memory(what):
    """Bytes of memory of this process: now (`VmRSS:`) or at most (`VmHWM:`)."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def read_cpu():
    """Seconds of CPU of this process and those of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def say(role):
    """Makes a message as OpenAI and Anthropic take it."""
    return lambda text: {"role": role, "content": text}


class Worker:
    """One contender, whose connections and memory of conversations are kept between rounds."""

    def __init__(self, name):
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.contender = importlib.import_module(f"with_{name}")
        self.memories = {}

    def run(self, function, arguments):
        if function == "go_on":
            (size,) = arguments
            if size not in self.memories:
                ask, answer = getattr(self.contender, "SAY", (say("user"), say("assistant")))
                pairs = ((ask(f"Question {n}"), answer(f"Answer {n}")) for n in range(size))
                remember = getattr(self.contender, "remember", list)
                self.memories[size] = self.finish(remember(chain.from_iterable(pairs)))
            arguments = [self.memories[size]]
        elif function == "many":
            number, *rest = arguments
            arguments = [[f"Prompt {n}" for n in range(number)], *rest]
        gc.collect()
        memory, began, cpu = read_memory("VmRSS:"), time.perf_counter(), read_cpu()
        one_by_one = function == "many" and hasattr(self.contender, "one")
        run = self.many if one_by_one else getattr(self.contender, function)
        answer = self.finish(run(*arguments))
        seconds, cpu = time.perf_counter() - began, read_cpu() - cpu
        grown = read_memory("VmHWM:") - memory
        wanted = ["done"] * len(arguments[0]) if function == "many" else "done"
        assert answer == wanted, f"{function}: {str(answer)[:300]}"
        gc.collect()
        return {
            "seconds": seconds, "cpu": cpu, "grown": grown, "objects": len(gc.get_objects()),
            "threads": threading.active_count(), "modules": len(sys.modules),
        }  # fmt: skip

    async def many(self, prompts, at_once, seconds):
        """Answers many prompts by a library without a function for that."""
        places = asyncio.Semaphore(at_once)

        async def one(prompt):
            async with places:
                return await self.contender.one(prompt, seconds)

        return await asyncio.gather(*map(one, prompts))

    def finish(self, found):
        return self.loop.run_until_complete(found) if inspect.isawaitable(found) else found


def main(name):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a contender prints is not an answer
    worker = Worker(name)
    for line in sys.stdin:
        print(json.dumps(worker.run(*json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
