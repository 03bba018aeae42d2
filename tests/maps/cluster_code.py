"""Functions that workers in other processes import, and local clusters of two workers."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_nb
from axe_nb import Agent, Request


def counter(request: Request) -> Any:
    """Calls `double` with the length of the prompt; says the prompt and the result."""
    prompt = request.messages[0].content
    if prompt == "fail":
        raise axe_nb.ProviderError("server", "out of order")
    if request.turn == 1:
        return axe_nb.call("double", number=len(prompt))
    if prompt.startswith("wait"):
        time.sleep(0.1)
    if prompt.startswith("die"):
        die(prompt.partition(" ")[2])
    return f"{prompt}: {request.results[0].content}"


def grade(request: Request) -> Any:
    """Judges how long the prompt is."""
    return {"score": len(request.last) / 1000, "reason": f"{len(request.last)} characters"}


def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


def die(marker: str) -> None:
    """Ends the process; with the path of a file, the first time only."""
    if marker and Path(marker).exists():
        return
    if marker:
        Path(marker).write_text("died")
    os._exit(9)


def register() -> None:
    """Makes them known to this session; not on import, as every test would have them then."""
    axe_nb.script("counter")(counter)
    axe_nb.script("grader")(grade)
    axe_nb.tool(double)


AGENT = Agent(name="counter", model="script/counter", tools=("double",))


def make_pool(workers: int = 2) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


@contextmanager
def dask() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def engines() -> Iterator[Any]:
    import ipyparallel

    with ipyparallel.Cluster(n=2, log_level=logging.CRITICAL) as client:
        yield client
