"""Resume files: the results of runs, one per line, each appended when its run ends.

After a header (D-61), each line is a JSON object with the key, the status and the result of a run.
Several processes and threads may append at once, as each writes whole lines. Lines that are
unfinished or cannot be read are ignored. A result is read only when a run with its key is due.

The key is a hash of the whole task: the agent with its options, skill and context files, the
descriptions of its tools, its sub-agents, and the prompt. The key ignores the code of tools and
scripts, and options that only limit or display a run (`timeout`, `retries`, `stream`,
`concurrency`, budgets, expectations). Source: D-60, D-61, D-75.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import threading
from collections.abc import Sequence
from typing import Any

from axe_nb.agents.agent import Agent
from axe_nb.agents.data_files import check_header, format_header
from axe_nb.agents.files import display_path, expand_home, reason
from axe_nb.conversion.jsonable import jsonable
from axe_nb.conversion.records import to_json
from axe_nb.conversion.toml_tables import make_table
from axe_nb.engine.plan import Plan
from axe_nb.errors import ConfigError, ProviderError
from axe_nb.pictures.picture import Picture
from axe_nb.providers.reply_errors import is_used_up
from axe_nb.results import RunResult
from axe_nb.secrets import find_filter
from axe_nb.session.overrides import Overrides
from axe_nb.text import one_line, shown_value

SIZE = 16
"""Length of a hash in bytes; a million runs have a collision probability below 1 in 10^26."""

NOT_FINISHED = ("timeout", "cancelled")

_START = re.compile(rb'\{"key":"([0-9a-f]{32})","status":"([a-z_]{1,20})","result":\{')

UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError)


class ResumeFile:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._files = contextlib.ExitStack()
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise ConfigError(f"resume takes the path of a file, not {shown_value(path)}")
        self._path = expand_home(os.fspath(path))
        self._shown = one_line(display_path(self._path), 300)
        self._lock = threading.Lock()
        self._found: dict[bytes, list[int]] = {}
        """Key → offsets of the lines with results for the key, the last line first."""
        self._is_torn = False
        self.problem = ""
        """Why a result could not be appended; empty if all results were appended."""
        try:
            if self._path.exists() and not self._path.is_file():
                raise OSError(errno.EINVAL, "it is not a file")
            self._path.touch(0o600)
            self._out = self._files.enter_context(self._path.open("ab", buffering=0))
            self._file = self._files.enter_context(self._path.open("rb"))
            kind = format_header("runs").encode()
            first = self._file.readline(1000)
            if first != kind[: len(first)]:  # otherwise it is right, or was not finished
                check_header("runs", first.decode("utf-8", "replace"))
            else:
                self._out.write(kind[len(first) :])
            at = self._file.seek(max(len(first), len(kind)))
            for line in self._file:
                start = _START.match(line)
                self._is_torn = not line.endswith(b"\n")
                if start and not self._is_torn and start[2].decode() not in NOT_FINISHED:
                    self._found.setdefault(bytes.fromhex(start[1].decode()), []).append(at)
                at += len(line)
            for places in self._found.values():
                places.reverse()
        except (OSError, ValueError, ConfigError) as error:
            self.close()
            problem = f"cannot open the resume file {self._shown}: {_explain(error)}"
            raise ConfigError(problem, hint=getattr(error, "hint", "")) from None

    def __del__(self) -> None:
        self.close()  # for a map that was never begun

    def take(self, key: str) -> RunResult | None:
        """Returns a stored result for a key, a different one at each call; None if none is left."""
        with self._lock:
            places = self._found.get(bytes.fromhex(key), [])
            while places:
                with contextlib.suppress(*UNREADABLE):  # a damaged line: its run is repeated
                    self._file.seek(places.pop())
                    result = RunResult.from_dict(json.loads(self._file.readline())["result"])
                    if is_final(result):
                        return result
        return None

    def append(self, key: str, result: RunResult) -> None:
        """Appends a result without its secrets. Errors are stored in `problem`, not raised."""
        try:
            text = json.dumps(to_json(result, find_filter()), separators=(",", ":"))
            line = f'{{"key":"{key}","status":"{result.status}","result":{text}}}\n'
            with self._lock:
                rest = memoryview(b"\n" * self._is_torn + line.encode())
                self._is_torn = True
                while rest:  # one write, unless the disk is full
                    rest = rest[self._out.write(rest) :]
                self._is_torn = False
        except UNREADABLE as error:
            self.problem = f"{self._shown} is missing results: {one_line(_explain(error), 200)}"

    def close(self) -> None:
        self._files.close()


def _explain(error: Exception) -> str:
    return reason(error) if isinstance(error, OSError) else str(error)


def is_final(result: RunResult) -> bool:
    """True if the run completed or would fail again; any other run is repeated (D-75).

    A run would fail again if a request was rejected for its content, or a limit was reached.
    """
    cause: Any = result.cause
    if result.status in NOT_FINISHED or (
        cause is not None and not isinstance(cause, ProviderError)
    ):
        return False  # a run with such a cause did not begin, or was lost
    if cause is None or cause.category == "refusal":
        return True
    # other statuses, such as 404, may be due to the settings
    is_of_request = cause.category == "bad_request" and cause.status in (None, 400, 413, 422)
    return is_of_request and not cause.retryable and not is_used_up(cause.detail)


async def compute_digest(plan: Plan, overrides: Overrides) -> bytes:
    env, output = plan.scope.env, plan.output
    below: dict[str, Any] = {}
    for agent, *_ in env.walk_below((plan.agent,)):
        try:
            briefing = await env.agents.brief(agent)
        except ConfigError as error:
            below[agent.name] = str(error)
            continue
        pictures = [picture.digest for _, picture in briefing.pictures]
        below[agent.name] = [_describe(agent), briefing.system, pictures]
    parts = {
        "agent": _describe(plan.agent),
        "system": plan.briefing.system,
        "pictures": [picture.digest for _, picture in plan.briefing.pictures],
        "tools": [[s.name, s.description, s.input_schema()] for s in plan.toolset.offered],
        "output": output and [output.sent, output.is_wrapped],
        "model_all": overrides.model_all,
        "vars": overrides.vars,
        "below": below,
    }
    return _hash(parts)


def compute_key(common: bytes, text: str, pictures: Sequence[Picture] = ()) -> str:
    own = _hash([text, [picture.digest for picture in pictures]])
    return hashlib.blake2b(common + own, digest_size=SIZE).hexdigest()


def _describe(agent: Agent) -> Any:
    table = make_table(agent)
    return {key: table[key] for key in table.keys() - {"description", "retry", "stream"}}


def _hash(parts: Any) -> bytes:
    text = json.dumps(jsonable(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=SIZE).digest()
