"""The comparison: each contender in an environment and a process of its own, round by round."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

from tests.benchmarks.peers.model import model, take_counts
from tests.benchmarks.peers.table import COLD, CONTENDERS, MODEL_SECONDS, TASKS, Contender, Task
from tests.bootstrap import ROOT, environment, say

HERE = Path(__file__).parent
LONGEST = 120.0
"""Seconds; a round that takes longer hangs."""
LEAST = 3
"""Rounds, also when the time of a task is over."""
SLOW = 5.0
"""Seconds; a round that takes longer is not repeated."""

Sample = dict[str, Any]
Samples = dict[str, list[Sample]]
"""Contender → what its rounds took; the first one, which warms up, is not among them."""

ROWS = (
    ("import: CPU, ms", "first", "import_cpu", 1e3),
    ("first answer of a new process: CPU, ms", "first", "cpu", 1e3),
    ("first answer of a new process: memory, MB", "first", "grown", 1e-6),
    ("one turn of fifty, with a call: CPU, ms", "chain", "cpu", 1e3 / 50),
    ("a turn after 1000 exchanges: CPU, ms", "go_on_1000", "cpu", 1e3),
    ("10 sub-agents, at least 150 ms: ms", "fan_out_10", "seconds", 1e3),
    ("100 sub-agents, at least 150 ms: ms", "fan_out_100", "seconds", 1e3),
    ("1000 sub-agents, cold: s", "cold", "seconds", 1),
    ("1000 sub-agents, cold: memory, MB", "cold", "grown", 1e-6),
    ("200 prompts, at least 200 ms: ms", "many", "seconds", 1e3),
)
"""(title, row of samples, its figure, that unit in the unit of the title)."""


class Failed(Exception):
    """A contender ended or answered wrong; the text is the end of what it printed."""


class Peer:
    """A process of a contender that waits for its next round."""

    def __init__(self, contender: Contender, python: Path, environ: Mapping[str, str]) -> None:
        self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, HERE / "worker.py", contender.module], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._printed, env=environ, cwd=environ["TMPDIR"],
        )  # fmt: skip

    def run(self, function: str, arguments: Iterable[float]) -> Sample:
        """One round. Raises Failed: it ended, answered wrong, or took longer than LONGEST."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps([function, [*arguments]]).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._last_words()) from None
        ready, _, _ = select.select([self._process.stdout], [], [], LONGEST)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            raise Failed(self._last_words() if ready else f"took longer than {LONGEST:.0f} s")
        found: Sample = json.loads(line)
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._printed.close()

    def _last_words(self) -> str:
        self._process.wait(10)
        return read_last_line(self._printed)


@dataclass
class Comparison:
    """A run: where each contender is, and the processes that wait for their next round."""

    url: str
    folder: str
    """For what contenders write."""
    pythons: dict[str, Path]
    peers: dict[str, Peer] = field(default_factory=dict)

    def environ(self, contender: Contender) -> dict[str, str]:
        """Its variables: no keys and settings of the person; axe_nb is that of this checkout."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE")
                if name in os.environ}  # fmt: skip
        names = ("HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "IPYTHONDIR")
        ours = {"PYTHONPATH": str(ROOT)} if contender.name == "axe_nb" else {}
        return {**kept, **dict.fromkeys(names, self.folder), "MODEL_URL": self.url, **ours}

    def first(self, contender: Contender) -> Sample:
        """A new process to its first answer: its time, memory at most, and what the import cost."""
        words = [self.pythons[contender.name], HERE / "first_answer.py", contender.module]
        take_counts(self.url)
        with tempfile.TemporaryFile("w+") as printed:
            began = time.perf_counter()
            process = subprocess.Popen(
                [*words, contender.first_line], stdout=subprocess.PIPE, stderr=printed,
                stdin=subprocess.DEVNULL, env=self.environ(contender), cwd=self.folder,
                encoding="utf-8",
            )  # fmt: skip
            assert process.stdout
            answer = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            process.stdout.close()
            if process.returncode:
                raise Failed(read_last_line(printed))
        found: Sample = json.loads(answer.splitlines()[-1]) | asdict(take_counts(self.url))
        return found | {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime}

    def warm(self, contender: Contender, task: Task) -> Sample:
        """A round of a task in the contender's process, which is started first if there is none."""
        peer = self.peers.get(contender.name) or self.start(contender)
        self.peers[contender.name] = peer
        take_counts(self.url)
        try:
            sample = peer.run(task.function, task.arguments) | asdict(take_counts(self.url))
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
            return peer.run("fan_out", (COLD, MODEL_SECONDS))
        finally:
            peer.close()

    def start(self, contender: Contender) -> Peer:
        return Peer(contender, self.pythons[contender.name], self.environ(contender))


@contextmanager
def compare(pythons: dict[str, Path]) -> Iterator[Comparison]:
    """A model and a folder for the contenders of `pythons`; their processes end with it."""
    with tempfile.TemporaryDirectory() as folder, model() as url:
        comparison = Comparison(url, folder, pythons)
        try:
            yield comparison
        finally:
            for peer in comparison.peers.values():
                peer.close()


def run_comparison(folder: Path, names: list[str]) -> None:
    """Installs and measures the contenders (all if there are no names), and prints the table."""
    contenders = [one for one in CONTENDERS if not names or one.name in names]
    pythons = {one.name: environment(str(folder / one.module), *one.packages) for one in contenders}
    say("\n".join(write_table(list(pythons), measure_all(pythons))))


def measure_all(pythons: dict[str, Path]) -> dict[str, Samples]:
    """Task → the rounds of each contender; `first` and `cold` are of new processes."""
    contenders = [one for one in CONTENDERS if one.name in pythons]
    with compare(pythons) as comparison:
        rows = {"first": in_turns(contenders, comparison.first, 7, 35)}
        for task in TASKS:
            able = [one for one in contenders if task.name in one.tasks]

            def measure(one: Contender, task: Task = task) -> Sample:
                return comparison.warm(one, task)

            rows[task.name] = in_turns(able, measure, task.rounds, task.seconds)
    with compare(pythons) as comparison:
        able = [one for one in contenders if one.is_parallel and one.tasks]
        rows["cold"] = in_turns(able, comparison.cold, 3, 40, warm_up=0, least=2, slow=LONGEST)
    return rows


def write_table(names: list[str], rows: Mapping[str, Samples]) -> Iterator[str]:
    """The rows of docs/comparison.md: the median of each contender."""
    yield f"| | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for title, row, figure, unit in ROWS:
        found = (rows[row].get(name) for name in names)
        values = (
            median(s[figure] for s in samples) * unit if samples else None for samples in found
        )
        shown = ("–" if v is None else f"{v:,.0f}" if v >= 99.5 else f"{v:.3g}" for v in values)
        yield f"| {title} | {' | '.join(shown)} |"


def in_turns(
    contenders: Iterable[Contender],
    measure: Callable[[Contender], Sample],
    rounds: int,
    seconds: float,
    *,
    warm_up: int = 1,
    least: int = LEAST,
    slow: float = SLOW,
) -> Samples:
    """What each round of each contender took, A-B-A-B, so that what disturbs one disturbs all.

    A contender for which `measure` raises Failed is left out. Rounds that warm up are not kept;
    after `seconds` there are no more than `least`.
    """
    samples: Samples = {}
    waiting, ends = list(contenders), 0.0
    for number in range(-warm_up, rounds):
        if number == 0:
            ends = time.monotonic() + seconds
        if number >= least and time.monotonic() > ends:
            break
        for contender in list(waiting):
            try:
                sample = measure(contender)
            except Failed as failed:
                say(f"{contender.name}: left out: {failed}")
                waiting.remove(contender)
                samples.pop(contender.name, None)
                continue
            if number >= 0:
                samples.setdefault(contender.name, []).append(sample)
                if sample["seconds"] > slow:
                    waiting.remove(contender)
        waiting = waiting[1:] + waiting[:1]  # none is always first
    return samples


def read_last_line(printed: IO[str]) -> str:
    printed.seek(0)
    return (printed.read().strip().splitlines() or ["it ended"])[-1]
