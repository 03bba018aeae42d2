"""Real local clusters of two workers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def dask() -> Iterator[Any]:
    """A client of Dask."""
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
    """A client of ipyparallel."""
    import ipyparallel

    with ipyparallel.Cluster(n=2, log_level=logging.CRITICAL) as client:
        yield client
