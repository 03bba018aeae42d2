"""`python -m tests.sandbox.random_commands --commands 20000`: random commands beside canaries.

They are made from a grammar and a seed, and run many to a cage; each names places, processes and
servers outside. Says how many ran; fails if a canary was touched or reached.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable

from tests.sandbox.batch import run_all, untouched
from tests.sandbox.cages import METHODS, make_cage, open_folder

PLACES = (
    "{other}", "{other}/secret.txt", "{home}", "{home}/.ssh/id_rsa", "{home}/new", "{other}/new",
    "/", "..", "~", "a.txt", "$HOME", "/etc/passwd", "/proc/{pid}/environ",
    "/proc/sys/kernel/core_pattern", "/dev/shm/x", "{socket}", "$OLDPWD", "*", "/usr/local/bin/x",
    "/dev/tcp/127.0.0.1/{port}", "/dev/udp/127.0.0.1/{port}", "/tmp/x", "../../other",
    "{home}/.bashrc", ".git/config", "up/x",
)  # fmt: skip
PROGRAMS = (
    "rm -rf {p}", "cat {p}", "cp -r {p} {p}", "mv {p} {p}", "ln -s {p} up", "ln {p} up",
    "touch {p}", "mkdir -p {p}", "chmod -R 777 {p}", "chown -R nobody {p}", "truncate -s 0 {p}",
    "tee {p}", "dd if={p} of={p} count=9", "find {p} -maxdepth 2 -delete", "grep -r canary {p}",
    "kill -{s} {pid}", "kill -{s} $PPID", "echo {w}", "printf '%s' {w}", "tar -cf {p} a.txt",
    "sed -i s/a/b/ {p}", "cd {p}", "ls -la {p}", "python3 -c \"import os; os.system('{c}')\"",
    "python3 -c \"open('{p}', 'a').write('x')\"", "bash -c '{c}'", "env -i sh -c '{c}'",
    "timeout 2 {c}", "xargs {c} < a.txt", "nohup {c}", "setsid {c}", "nice {c}",
    "curl -m 2 -s 127.0.0.1:{port}", "git init -q {p}", "mount --bind . {p}", "umount -l {p}",
    "unshare -Ur {c}", "nsenter -t {pid} -a {c}", "install a.txt {p}", "mknod {p} c 1 3",
)  # fmt: skip
JOINS = (" && ", " || ", " ; ", " | ", " & ", "\n", " |& ")
REDIRECTIONS = (">", ">>", "<", "2>", "&>", "<<<", ">|", "<>")
FORMS = ("(@)", "{ @; }", "for i in 1 2; do @; done", "! @", "eval '@'")
SIGNALS = ("9", "TERM", "0", "HUP", "STOP", "CONT")
WORDS = (
    "x", "evil", "'$HOME'", '"$(cat {p})"', "`ls {p}`", "{a,b}", "$((1+1))", "${HOME%/*}", "\\$x",
)  # fmt: skip


def make_command(chance: random.Random, depth: int = 0) -> str:
    """A command of the grammar."""
    count = chance.choice((1, 1, 1, 2, 3)) if depth < 2 else 1
    text = ""
    for number in range(count):
        text += (chance.choice(JOINS) if number else "") + simple(chance, depth)
    if chance.random() < 0.1:
        text = chance.choice(FORMS).replace("@", text)
    return text


def simple(chance: random.Random, depth: int) -> str:
    text = chance.choice(PROGRAMS)
    while "{c}" in text:
        inner = (
            make_command(chance, depth + 1).replace("'", "").replace('"', "") if depth < 2 else "id"
        )
        text = text.replace("{c}", inner, 1)
    for mark, choices in (("{w}", WORDS), ("{p}", PLACES), ("{s}", SIGNALS)):
        while mark in text:
            text = text.replace(mark, chance.choice(choices), 1)
    if chance.random() < 0.4:
        text += f" {chance.choice(REDIRECTIONS)} {chance.choice(PLACES)}"
    if chance.random() < 0.05:
        text = f"{chance.choice(('>', '<'))}{chance.choice(PLACES)} {text}"
    if chance.random() < 0.03:
        text += chance.choice(("'", '"', "\\", "$(", "&", ")"))
    return text


def run_random(
    method: str,
    uid: int,
    commands: int,
    seed: int,
    *,
    size: int = 200,
    seconds: float = 1,
    report: Callable[[int, int], None] = lambda done, said: None,
) -> int:
    """Runs so many random commands; returns the number of those that said something."""
    chance = random.Random(seed)
    said = done = 0
    while done < commands:
        with open_folder() as base:
            cage = make_cage(method, uid, base)
            with untouched(cage) as canaries:
                some: dict[str, None] = {}
                while len(some) < min(size, commands - done):
                    some[canaries.fill(make_command(chance), cage)] = None
                outputs = run_all(cage, list(some), seconds=seconds)
        said += sum(bool(text) for text in outputs.values())
        done += len(outputs)
        report(done, said)
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commands", type=int, default=20_000, help="of each method")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--method", choices=METHODS, action="append", help="default: all three")
    parser.add_argument("--uid", type=int, default=os.geteuid())
    parser.add_argument("--seconds", type=float, default=1, help="time limit of a command")
    given = parser.parse_args()
    for method in given.method or METHODS:
        began = time.monotonic()

        def report(done: int, said: int, method: str = method, began: float = began) -> None:
            took = time.monotonic() - began
            print(
                f"{method}: {done} commands in {took:.0f} s, {said} of them said something; "
                "no canary was touched or reached",
                flush=True,
            )

        run_random(
            method, given.uid, given.commands, given.seed, seconds=given.seconds, report=report
        )


if __name__ == "__main__":
    main()
