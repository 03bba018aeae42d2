"""Parts as version 2.0 wrote them: text, with each reply compressed beside its line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import axe_nb
from axe_nb import ConfigError
from axe_nb.run_history.locks import RunLocks
from axe_nb.run_history.store import Row, Store

START = (
    '{"at":0,"start":{"run":"0","parent":"","call_id":"","agent":"echo","model":"openai/m","depth":'
    '0,"task":"Old","prompt":"Old"}}'
)

COUNTED = "".join(f"{number} " for number in range(30))
WHOLE = "All é of it."

TURN = (
    '{{"at":{0},"run":"0","turn":{{"run":"0","turn":{0},"text":"{1}","calls":[],"stop_reason":'
    '"stop","usage":{{"input_tokens":2,"output_tokens":1}},"parallel":true}},"exchanges":[{{"turn":'
    '{0},{2}"sent":1,"reply":{{"packed":true}},"response":{{}}}}]}}'
)

PARTS_2_0 = (
    START,
    TURN.format(1, COUNTED, '"model":"m","protocol":"openai",') + "\n"
    "eD9+B2E6qwa6NrGkFOQuAwMdpYzUxJTUIiCvWik5P68EaJhuSWUBUDE4HPVTy0AixSVAr+Yq1dZyVSvlZOaBnKikig8A3Q"
    "WMGZBPog3NdJDUqmEBSrGxtVwpiSWJVgpAfwONftfQoFTLxQXCyMLUjlEA+As/Ag==",
    TURN.format(2, WHOLE, "") + "\n"
    "eD/reIz2qyY2zhMLCnIykxNLMvPz9LNA/gBFOSjWsfq+FgBL0x6k",
    TURN.format(3, COUNTED, "") + "\n"
    "eD+ADnWbqyY2EkDhpJ9aBoqW4hKgV3LBsaBUnFkFcoLSofbj64F+AgYwyEHRhmY6SqpwoIYFKMXG1nKlJJYkWikAnQ804V"
    "1Dg1ItFxcIIwtTO2IAb/Q9ow==",
)  # fmt: skip


@pytest.fixture
def second(kept: Path) -> Path:
    """A history with a run of three replies: a folded stream, a body, a stream in two pieces."""
    kept.parent.mkdir(parents=True)
    parts = [f"axe_nb history 2.0\n{part}" for part in PARTS_2_0]
    row = Row(agent="echo", status="cancelled", started=4e9, parts=[*parts])
    with closing(Store(kept, RunLocks(kept.with_suffix(".test")))) as store:
        store.write([row])
    return kept


@pytest.mark.req("D-61")
def test_replies_of_the_second_version_are_read(second: Path) -> None:
    stream, whole, cut = [one.reply for one in axe_nb.load(1).exchanges]
    assert stream
    assert stream.pieces == tuple(b'data: {"t":"%d "}\n\n' % number for number in range(30))
    assert whole
    assert whole.pieces == ('{"text":"All é of it."}'.encode(),)
    assert cut
    assert cut.body == stream.body
    assert [len(piece) for piece in cut.pieces] == [100, len(cut.body) - 100]
    assert [reply.headers["content-type"] for reply in (stream, whole, cut)] == [
        "text/event-stream", "application/json", "text/event-stream",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        "replace(content, char(10) || 'eD', char(10) || 'eDx')",
        "substr(content, 1, length(content) - 40)",
        "replace(content, '\"turn\":1', '\"turn\":2')",
        "substr(content, 1, instr(content, char(10) || 'eD'))",
    ],
)
def test_a_damaged_reply_of_the_second_version_is_an_error(change: str, second: Path) -> None:
    with closing(sqlite3.connect(second)) as connection:
        connection.execute(f"UPDATE parts SET content = {change} WHERE id = 2")
        connection.commit()
    with pytest.raises(ConfigError, match=r"run 1 of the history cannot be read: .*damaged"):
        axe_nb.load(1)
