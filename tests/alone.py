"""`python -m tests.alone`: each test file in a process of its own, or those named as arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(named: list[str]) -> int:
    """Exit code: 0 iff the tests of every file pass."""
    files = named or [str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("tests/**/test_*.py"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = 0
        for file, done in zip(files, pool.map(alone, files), strict=True):
            lines = done.stdout.strip().splitlines() or ["no output"]
            failed += bool(done.returncode)
            print(f"{file}: {lines[-1]}" if not done.returncode else done.stdout, flush=True)
    print(f"{len(files) - failed} of {len(files)} files pass by themselves")
    return 1 if failed else 0


def alone(file: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", file], cwd=ROOT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
