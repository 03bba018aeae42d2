"""`python -m tests.benchmarks.executors`: what a run of a map costs beyond itself, by executor.

The model is a function that answers at once, after one call of a tool; two workers each. Wall and
CPU (of this process and its workers that have ended) per run, and the time that the workers take
to start. `… executors two` compares two processes with one, where a script computes.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from contextlib import nullcontext
from typing import Any

import axe_nb
from tests.benchmarks.goals import row
from tests.maps.cluster_code import AGENT, dask, engines, make_pool, register

RUNS = 400
CONCURRENCY = (2, 20)


def measure(executor: Any, concurrency: int) -> float:
    """Milliseconds per run."""
    prompts = [f"prompt {n}" for n in range(RUNS)]
    options = {"executor": executor, "concurrency": concurrency, "display": False}
    assert all(r.ok for r in axe_nb.map(AGENT, prompts[:40], **options))
    began = time.perf_counter()
    found = list(axe_nb.map(AGENT, prompts, **options))
    assert all(r.ok for r in found)
    return 1000 * (time.perf_counter() - began) / RUNS


def compute(request: axe_nb.Request) -> str:
    """Takes about 20 ms of a processor."""
    return str(sum(n * n for n in range(300_000)))


def compare_workers(number: int = 400) -> None:
    axe_nb.script("compute")(compute)
    agent = axe_nb.Agent(name="one", model="script/compute")
    took = []
    for workers in (1, 2, 1, 2):
        with make_pool(workers) as pool:
            options = {"executor": pool, "concurrency": 4 * workers, "display": False}
            list(axe_nb.map(agent, ["first"] * 8 * workers, **options))
            began = time.perf_counter()
            found = list(axe_nb.map(agent, [f"p{n}" for n in range(number)], **options))
            took.append(time.perf_counter() - began)
            assert all(r.ok for r in found)
    one, two = took[0] + took[2], took[1] + took[3]
    shown = f"{one / 2:.1f} s, {two / 2:.1f} s: {one / two:.2f} x"
    row("one worker, two workers", shown, two / one, 0.625, 0.526, " of the time")


def measure_driver(number: int = 2000) -> None:
    """Tells the CPU that the driving process needs for each run, which bounds all workers."""
    with make_pool() as pool:
        for concurrency in (2, 20, 200):
            options = {"executor": pool, "concurrency": concurrency, "display": False}
            list(axe_nb.map(AGENT, ["first"] * concurrency, **options))
            cpu = time.process_time()
            assert all(r.ok for r in axe_nb.map(AGENT, ["p"] * number, **options))
            each = (time.process_time() - cpu) / number
            print(f"{concurrency // 2} prompts in a job: {1e6 * each:.0f} µs of the driver per run")


def main() -> None:
    register()
    warnings.simplefilter("ignore")
    os.environ["AXE_NB_HISTORY"] = "0"
    kinds = {
        "none: this process": nullcontext,
        "processes": make_pool,
        "dask LocalCluster": dask,
        "ipyparallel Cluster": engines,
    }
    for name, make in kinds.items():
        began = time.perf_counter()
        with make() as executor:
            list(axe_nb.map(AGENT, ["first"], executor=executor, display=False))
            ready = time.perf_counter() - began
            took = [measure(executor, concurrency) for concurrency in CONCURRENCY]
        shown = ", ".join(f"{ms:.2f} ms at {n}" for ms, n in zip(took, CONCURRENCY, strict=True))
        print(f"{name:20} first result after {ready:5.2f} s; per run {shown}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["two"]:
        register()
        compare_workers()
        measure_driver()
    else:
        main()
