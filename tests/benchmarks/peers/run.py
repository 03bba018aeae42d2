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
from typing import Any

from tests.benchmarks.peers.install import NotInstalled, describe, install, promptfoo_command
from tests.benchmarks.peers.measure import (
    Peer,
    Sample,
    Samples,
    in_turns,
    make_environ,
    measure_first,
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
            return peer.run(task.function, task.arguments) | self.counts()
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
            for peer in comparison.peers.values():
                peer.close()


def run_comparison(folder: Path, names: list[str]) -> dict[str, Any]:
    """Installs and measures the contenders (all if there are no names); the content of the file."""
    contenders = [one for one in CONTENDERS if not names or one.name in names]
    found: dict[str, Any] = {}
    pythons: dict[str, Path] = {}
    for contender in contenders:
        try:
            python = pythons[contender.name] = install(contender, folder)
            found[contender.name] = describe(contender, python, folder)
        except NotInstalled as problem:
            say(f"{contender.name} is not installed: {problem}")
            found[contender.name] = {"problem": str(problem)}
    there = [one for one in contenders if one.name in pythons]
    command = promptfoo_command(folder) if "promptfoo" in pythons else []
    began, load = time.monotonic(), os.getloadavg()[0]
    rows: dict[str, Samples] = {}
    with compare(pythons, command) as comparison:
        say("first answer of a new process")
        rows["first"] = in_turns(there, comparison.first, 7, 45)
        for task in TASKS:
            say(f"{task.function} {' '.join(map(str, task.arguments))}")
            rows[task.name] = comparison.measure(task, there)
    with compare(pythons, command) as comparison:
        able = [one for one in there if one.is_parallel and "fan_out_100" in one.tasks]
        say(f"fan_out {COLD}, cold: {', '.join(one.name for one in able)}")
        rows["cold"] = in_turns(able, comparison.cold, 3, 25, warm_up=0)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = {
        "cpus": os.cpu_count(), "memory_gb": round(memory), "system": platform.system(),
        "python": platform.python_version(), "load_before": round(load, 1),
        "load_after": round(os.getloadavg()[0], 1),
    }  # fmt: skip
    return {
        "date": date.today().isoformat(), "seconds": round(time.monotonic() - began),
        "command": " ".join(["python -m tests.benchmarks --peers", *names]),
        "machine": machine, "contenders": found, "rows": rows,
    }  # fmt: skip
