"""`python -m tests.random_patterns SEED COUNT`: what compiling hostile patterns costs.

Prints the most seconds of CPU for one pattern, the number of valid patterns, and the peak memory of
the process in units of `ru_maxrss`.
"""

from __future__ import annotations

import random
import sys
import time

import regex

from axe_nb.conversion.patterns import compile_pattern
from axe_nb.errors import ConfigError

ATOMS = (
    "a", "b", ".", r"\w", r"\p{L}", r"\p{Lu}", "[a-z]", "[^x]", "[[:alpha:]]", r"[\p{L}\d]", "é",
    "(?i)", "(?x)", "(?V1)", "(?if)", "^", "$", r"\b", "#c\n", " ", r"\X", r"\R", "(?1)", "(?R)",
    r"\1", "ffi", "İ", r"\N{LATIN SMALL LETTER A}", "[]{5}a]", "[a{9}]", r"\{9\}", "[(]", "[)]",
)  # fmt: skip
COUNTS = (
    "{2}", "{10}", "{100}", "{1000}", "{50,}", "{,60}", "{3,70}", "{1 0}", "{1 0#c\n0 0}",
    "{100}?", "{100}+", "*", "+", "?", "{e<=2}", "{1000,2000}", "{99999}", "{7}", "{316}",
)  # fmt: skip
GROUPS = (
    "(", "(?:", "(?=", "(?<=", "(?>", "(?i:", "(?|", "(?<n>", "(?!", "(?ix:", "(?#", "(((",
    "(?:(?:",
)  # fmt: skip


def make_pattern(choose: random.Random, depth: int) -> str:
    """A pattern of nested groups and repeats, often invalid."""
    pattern = ""
    for _ in range(choose.randint(1, 3)):
        if depth and choose.random() < 0.6:
            opened = choose.choice(GROUPS)
            inner = make_pattern(choose, depth - 1) if choose.random() < 0.95 else ""
            pattern += opened + inner + ")" * opened.count("(")
        else:
            pattern += choose.choice(ATOMS)
        if choose.random() < 0.6:
            pattern += choose.choice(COUNTS)
        if choose.random() < 0.1:
            pattern += "|"
    return pattern


def main(seed: int, count: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    choose = random.Random(seed)
    compiled, longest = 0, 0.0
    for _ in range(count):
        pattern = make_pattern(choose, choose.randint(0, 5))
        began = time.process_time()
        try:
            compile_pattern(pattern)
            compiled += 1
        except ConfigError:
            pass
        longest = max(longest, time.process_time() - began)
        regex.purge()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(longest, compiled, grown)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
