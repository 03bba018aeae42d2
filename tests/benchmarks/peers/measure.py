"""Contenders in turns: warm processes that run a task each, and new ones to their first answer."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from tests.benchmarks.peers.table import Contender
from tests.bootstrap import say

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


class Failed(Exception):
    """A contender ended or answered wrong; the text is the end of what it printed."""


class Peer:
    """A process of a contender that waits for its next round."""

    def __init__(self, contender: Contender, python: Path, environ: Mapping[str, str]) -> None:
        self.contender = contender
        self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, HERE / "worker.py", contender.module], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._printed, env=environ, cwd=environ["TMPDIR"],
        )  # fmt: skip

    def run(self, function: str, arguments: Iterable[float]) -> Sample:
        """One round.

        Raises:
            Failed: it ended, answered wrong, or took longer than LONGEST.
        """
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


def make_environ(url: str, folder: str, more: Mapping[str, str]) -> dict[str, str]:
    """The variables of a contender: no keys and settings of the person, no tracing."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE")
            if name in os.environ}  # fmt: skip
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "IPYTHONDIR"))
    return {**kept, **dict.fromkeys(places, folder), "MODEL_URL": url, **more}


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

    Args:
        measure: one round; a contender for which it raises Failed is left out.
        rounds: at most, beside those that warm up and are not kept.
        seconds: after these no more rounds, but `least`.
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


def measure_first(contender: Contender, python: Path, environ: Mapping[str, str]) -> Sample:
    """A new process to its first answer: its time, memory at most, and what the import cost.

    Raises:
        Failed: there was none.
    """
    words = [python, HERE / "first_answer.py", contender.module, contender.first_line]
    with tempfile.TemporaryFile("w+") as printed:
        began = time.perf_counter()
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=printed, stdin=subprocess.DEVNULL,
            env=environ, cwd=environ["TMPDIR"], encoding="utf-8",
        )  # fmt: skip
        assert process.stdout
        answer = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if process.returncode:
            raise Failed(read_last_line(printed))
    found: Sample = json.loads(answer.splitlines()[-1])
    if contender.is_npm:
        del found["grown"]  # of the Python that starts its command
    return found | {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime}


def try_claims(contender: Contender, python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Claim → why it does not hold; empty if it does. None if the contender has no claims."""
    if not (HERE / f"claims_{contender.module}.py").exists():
        return {}
    with tempfile.TemporaryFile("w+") as printed:
        try:
            done = subprocess.run(
                [python, HERE / "claims.py", contender.module], stdout=subprocess.PIPE,
                stderr=printed, stdin=subprocess.DEVNULL, env=environ, cwd=environ["TMPDIR"],
                encoding="utf-8", timeout=LONGEST, check=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"its claims took longer than {LONGEST:.0f} s") from None
        except subprocess.CalledProcessError:
            raise Failed(read_last_line(printed)) from None
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def read_last_line(printed: IO[str]) -> str:
    printed.seek(0)
    return (printed.read().strip().splitlines() or ["it ended"])[-1]
