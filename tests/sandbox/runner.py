"""Runs many commands in a sandbox, several at once: `python3 -I -S -c SOURCE SECONDS PARALLEL`.

Reads them from `all.txt`, separated by zero bytes, before the first one is started: some of them
remove all files of the workdir. Each has a folder, a session and a parent of its own, which it may
stop or kill. Prints `["start", number]` and `["end", number, output]`, one to a line.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time

MOST = 2000
"""Most bytes of output that are kept of a command."""


def say(*words):
    """Prints at once: a command may end this process at any moment."""
    os.write(1, (json.dumps(words) + "\n").encode())


class Command:
    """A command that runs, below a parent that does nothing but wait for it."""

    def __init__(self, number, text, folder, deadline):
        self.number = number
        self.deadline = deadline
        self.output = b""
        self.has_closed = self.has_ended = False
        self.pipe, writable = os.pipe()
        os.set_blocking(self.pipe, False)
        self.parent = os.fork()
        if not self.parent:
            wait_for(text, folder, writable)
        os.close(writable)

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.pipe, 65536):
                self.output = (self.output + piece)[:MOST]
                if time.monotonic() > self.deadline:
                    return
            self.has_closed = True

    def reap(self):
        if not self.has_ended:
            self.has_ended = os.waitpid(self.parent, os.WNOHANG)[0] != 0

    def is_over(self):
        """True once all has ended that has not detached itself, or the time is up."""
        return (self.has_closed and self.has_ended) or time.monotonic() > self.deadline

    def end(self):
        with contextlib.suppress(OSError):
            os.killpg(self.parent, signal.SIGKILL)
        if not self.has_ended:
            os.waitpid(self.parent, 0)
        os.close(self.pipe)
        say("end", self.number, self.output.decode("utf-8", "replace"))


def wait_for(text, folder, writable):
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        os.chdir(folder)
        with open("a.txt", "w") as file:  # noqa: PTH123 - pathlib takes too long to import
            file.write("a\n")
    os.setsid()
    child = os.fork()
    if not child:
        os.dup2(writable, 1)
        os.dup2(writable, 2)
        os.execv("/bin/bash", ["bash", "-c", text])
    os.close(writable)
    os.close(1)
    os.waitpid(child, 0)
    os._exit(0)


def main():
    seconds, parallel = float(sys.argv[1]), int(sys.argv[2])
    work = os.getcwd()  # noqa: PTH109
    with open("all.txt", "rb") as file:  # noqa: PTH123
        waiting = list(enumerate(file.read().split(b"\0")))[::-1]
    running = []
    while waiting or running:
        while waiting and len(running) < parallel:
            number, text = waiting.pop()
            say("start", number)
            deadline = time.monotonic() + seconds
            running.append(Command(number, text, f"{work}/{number}", deadline))
        select.select([one.pipe for one in running if not one.has_closed], [], [], 0.01)
        for one in running[:]:
            if not one.has_closed:
                one.read()
            one.reap()
            if one.is_over():
                one.end()
                running.remove(one)


main()
