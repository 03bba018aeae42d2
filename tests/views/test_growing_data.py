"""JSON while it is written: what is complete, and nothing that is not."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from axe_nb.cell_display.answer import read_beginning

RECORDS = '[{"city": "Berne \\"B\\"", "size": 12.5}, {"city": "Rome", "size": null}]'


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", None),
        ("[{", None),
        ('[{"city": "Ber', None),
        ('[{"city": "Berne \\"B\\"", "size": 12', [{"city": 'Berne "B"'}]),
        ('[{"city": "Berne", "size": 12.5}, {"ci', [{"city": "Berne", "size": 12.5}]),
        (RECORDS, json.loads(RECORDS)),
        ('{"a": {"b": [1, tr', {"a": {"b": [1]}}),
        ("I'll look.", None),
        ('[{"a": 1}]\n```\nI hope {that} "helps', [{"a": 1}]),
        ("]]{,:", None),
        ("[" * 100_000, None),
    ],
)
def test_what_is_complete_of_a_beginning_is_read(text: str, data: Any) -> None:
    assert read_beginning(text) == data


def make(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randint(0, 6 if depth < 4 else 4)
    if kind > 4:
        values = [make(chance, depth + 1) for _ in range(chance.randint(0, 3))]
        return values if kind == 5 else {f'k"{n}\\': value for n, value in enumerate(values)}
    return chance.choice([None, True, -1.5e3, 'a"b\\', "{[,:]}", "\n\u2028"])


def contains(whole: Any, part: Any) -> bool:
    """True if everything in the part stands at the same place in the whole."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(contains(whole.get(k), v) for k, v in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and all(map(contains, whole, part))
    return bool(whole == part)


def test_each_beginning_of_any_data_is_read_as_a_part_of_it() -> None:
    chance = random.Random(5)
    for _ in range(200):
        whole = [make(chance), make(chance)]
        text = json.dumps(
            whole, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1])
        )
        for size in range(1, len(text)):
            found = read_beginning(text[:size])
            assert found is None or contains(whole, found), text[:size]
        assert read_beginning(text) == whole


def test_deep_nesting_takes_no_longer_than_to_read_it() -> None:
    began = time.process_time()
    read_beginning("[1," * 20_000)
    assert time.process_time() - began < 2  # 22 s if the open brackets are listed for each value
