"""Real local clusters of two workers: pools of processes, clients of Dask and ipyparallel."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any


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
