"""The comparison: installs the contenders, measures them in one run, and gives what was found."""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.peers.install import NotInstalled, describe, install, promptfoo_command
from tests.benchmarks.peers.measure import (
    LONGEST,
    Failed,
    Peer,
    Sample,
    Samples,
    in_turns,
    make_environ,
    measure_first,
    try_claims,
)
from tests.benchmarks.peers.model import model, take_counts
from tests.benchmarks.peers.table import COLD, CONTENDERS, MODEL_SECONDS, TASKS, Contender, Task
from tests.bootstrap import ROOT, say


@dataclass
class Comparison:
    """A run: where each contender is, and the processes that wait for their next round."""

    url: str
    folder: str
    """For what contenders write."""
    pythons: dict[str, Path]
    promptfoo: list[str]
    peers: dict[str, Peer] = field(default_factory=dict)

    def environ(self, contender: Contender) -> dict[str, str]:
        """Its variables; axe_nb is that of this checkout, whichever is installed."""
        more = {"PYTHONPATH": str(ROOT)} if contender.name == "axe_nb" else {}
        more["PROMPTFOO"] = json.dumps(self.promptfoo)
        return make_environ(self.url, self.folder, more)

    def first(self, contender: Contender) -> Sample:
        take_counts(self.url)
        python = self.pythons[contender.name]
        return measure_first(contender, python, self.environ(contender)) | self.counts()

    def warm(self, contender: Contender, task: Task) -> Sample:
        """A round of a task in the contender's process, which is started first if there is none."""
        peer = self.peers.get(contender.name) or self.start(contender)
        self.peers[contender.name] = peer
        take_counts(self.url)
        try:
            sample = peer.run(task.function, task.arguments) | self.counts()
            if sample["requests"] != task.requests:
                raise Failed(f"{task.name}: {sample['requests']} requests, not {task.requests}")
            return sample
        except BaseException:
            self.peers.pop(contender.name).close()
            raise

    def cold(self, contender: Contender) -> Sample:
        """A fan-out to COLD children in a process that has made one with a single child."""
        peer = self.start(contender)
        try:
            peer.run("fan_out", (1, MODEL_SECONDS))
            take_counts(self.url)
            return peer.run("fan_out", (COLD, MODEL_SECONDS)) | self.counts()
        finally:
            peer.close()

    def claims(self, contender: Contender) -> dict[str, str]:
        try:
            python = self.pythons[contender.name]
            return try_claims(contender, python, self.environ(contender))
        except Failed as failed:
            say(f"{contender.name}: nothing tried: {failed}")
            return {}

    def close(self) -> None:
        """Ends the processes that wait."""
        while self.peers:
            self.peers.popitem()[1].close()

    def start(self, contender: Contender) -> Peer:
        return Peer(contender, self.pythons[contender.name], self.environ(contender))

    def counts(self) -> dict[str, int]:
        return asdict(take_counts(self.url))

    def measure(self, task: Task, contenders: list[Contender]) -> Samples:
        able = [one for one in contenders if task.name in one.tasks]
        return in_turns(able, lambda one: self.warm(one, task), task.rounds, task.seconds)


@contextmanager
def compare(pythons: dict[str, Path], promptfoo: list[str]) -> Iterator[Comparison]:
    """A model and a folder for the contenders of `pythons`; their processes end with it."""
    with tempfile.TemporaryDirectory() as folder, model() as url:
        comparison = Comparison(url, folder, pythons, promptfoo)
        try:
            yield comparison
        finally:
            comparison.close()


def run_comparison(folder: Path, names: list[str]) -> dict[str, Any]:
    """Installs and measures the contenders (all if there are no names); the content of the file."""
    contenders = [one for one in CONTENDERS if not names or one.name in names]
    described, pythons = install_all(contenders, folder)
    there = [one for one in contenders if one.name in pythons]
    command = promptfoo_command(folder) if "promptfoo" in pythons else []
    began, load = time.monotonic(), os.getloadavg()[0]
    with compare(pythons, command) as comparison:
        rows = measure_all(comparison, there)
    with compare(pythons, command) as comparison:
        say("what the page says of them")
        claims = {one.name: comparison.claims(one) for one in there}
        for name, samples in rows["fan_out_100"].items():
            took = median(sample["seconds"] for sample in samples)
            claims[name] |= {"parallel": ""} if took < 100 * MODEL_SECONDS else {}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = {
        "cpus": os.cpu_count(), "memory_gb": round(memory), "system": platform.system(),
        "python": platform.python_version(), "load_before": round(load, 1),
        "load_after": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    return {
        "date": date.today().isoformat(), "seconds": round(time.monotonic() - began),
        "command": " ".join(["python -m tests.benchmarks --peers", *names]),
        "machine": machine, "contenders": described, "claims": claims, "rows": rows,
    }  # fmt: skip


def install_all(
    contenders: list[Contender], folder: Path
) -> tuple[dict[str, Any], dict[str, Path]]:
    """(what is known of each contender, the Python of those that are installed)."""
    described: dict[str, Any] = {}
    pythons: dict[str, Path] = {}
    for contender in contenders:
        try:
            python = install(contender, folder)
            described[contender.name] = describe(contender, python, folder)
            pythons[contender.name] = python
        except NotInstalled as problem:
            say(f"{contender.name} is not installed: {problem}")
            described[contender.name] = {"problem": str(problem)}
    return described, pythons


def measure_all(comparison: Comparison, contenders: list[Contender]) -> dict[str, Samples]:
    """Row → what the rounds of each contender took."""
    say("first answer of a new process")
    rows = {"first": in_turns(contenders, comparison.first, 7, 35)}
    for task in TASKS:
        say(f"{task.function} {' '.join(map(str, task.arguments))}")
        rows[task.name] = comparison.measure(task, contenders)
    comparison.close()
    able = [one for one in contenders if one.is_parallel and "fan_out_100" in one.tasks]
    say(f"fan_out {COLD}, cold")
    rows["cold"] = in_turns(able, comparison.cold, 3, 40, warm_up=0, least=2, slow=LONGEST)
    return rows
