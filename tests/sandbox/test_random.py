"""Random commands of a grammar beside canaries: none is touched or reached.

Each names places, processes and servers outside.
"""

from __future__ import annotations

import random

import pytest

from tests.sandbox.batch import run_all, untouched
from tests.sandbox.cages import Cage

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


@pytest.mark.req("D-82")
def test_no_canary_is_touched(cage: Cage) -> None:
    chance = random.Random(7)
    with untouched(cage) as canaries:
        commands = {canaries.fill(make_command(chance), cage) for _ in range(100)}
        outputs = run_all(cage, sorted(commands), seconds=1)
    assert sum(bool(text) for text in outputs.values()) > 25
