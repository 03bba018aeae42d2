"""Regular expressions of models and scripts: what they may cost before they match anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

from axe_nb.conversion.patterns import compile_pattern, count_copies
from axe_nb.errors import ConfigError

HUGE = [
    "((a{1000}){1000}){1000}", "((((a{100}){100}){100}){100})", "a{2000000}",
    "(?:(?:a{317}){317,})", "(a{,1000}){1000,1001}", "(?x)(a{1 0 0 0}){1 0 0 0}",
    "(?x)(a{1#c\n000}) {1000}", "(?x: (a{1000}) # ) (\n {1000})", r"(?V1)([[a]{1}]{1000}){1000}",
    r"(\p{L}{1000}){1000}", r"(\\{1000}){1000}", "(a{1000})(?1){1000}(?:b{1000}){9}",
    "(?<=(?:a{1000}){1000})", "([)]{1000}){1000}", "([]](a{1000}){1000})", "a{1000}{1000}",
    "x" * 900 + "{500}", "(" * 20 + "a" + ")+" * 20, "(?:a{1000})(?i){50}",
    "(?x)" + "(" * 20 + "a" + ") +" * 20, "(" * 10 + "a" + "){2}" * 10,
    "(" * 16 + "a" + "){1,}" * 16,
]  # fmt: skip


@pytest.mark.parametrize("pattern", HUGE)
@pytest.mark.req("D-20")
def test_a_pattern_with_a_huge_size_is_refused_before_it_is_compiled(pattern: str) -> None:
    with pytest.raises(ConfigError, match="its repeats make it too large") as refused:
        compile_pattern(pattern)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "pattern",
    [
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"\b(?:\d{1,3}\.){3}\d{1,3}\b", r"(?i)^\s{0,80}def\s+(\w{1,60})\(",
        r"(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}:\d{2}", r"\{1000\} \{1000\} \{1000\}",
        "a{100}b{100}c{100}", "(?P<year>[12][0-9]{3})(?=x{1,9})", r"print\(\){2}|( ){4}|(?i)x{3}",
        r"[\w.+-]{1,64}@(?:[a-z0-9-]{1,63}\.)+[a-z]{2,63}",
        r"(?x) (\w+ \s* = \s* \d+) # an assignment",
    ],
)  # fmt: skip
def test_patterns_that_people_write_are_compiled(pattern: str) -> None:
    assert compile_pattern(pattern).pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "times"),
    [
        ("abc", 1), ("a{3}b{4}", 5), ("(a{3}b){4}c{5}", 20), ("(a|(b{2}){3}|c){0,4}", 60),
        ("((a+)+b*)+c?", 8), ("[{9}]{2}", 3), ("(?x)a{3}b{4}", 5), ("(?x)a+ (a )#c\n+", 2),
        ("a{", 1), ("a{,}", 1),
    ],
)  # fmt: skip
def test_repeats_multiply_if_they_are_nested_or_may_be(pattern: str, times: int) -> None:
    assert count_copies(pattern) == times


@pytest.mark.skipif(sys.platform == "win32", reason="it measures with the resource module")
def test_no_random_pattern_takes_long_or_much_memory_to_compile() -> None:
    words = [sys.executable, "-m", "tests.random_patterns"]
    idle, busy = (
        subprocess.run([*words, "7", count], capture_output=True, text=True, check=True).stdout
        for count in ("0", "6000")
    )
    seconds, compiled, peak = map(float, busy.split())
    assert compiled > 1000
    assert seconds < 0.25, "some milliseconds, and room for a busy machine"
    assert peak - float(idle.split()[2]) < 12_000 * (1024 if sys.platform == "darwin" else 1)
