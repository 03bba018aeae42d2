"""The command line as a process of its own: pipes, signals, terminals, exit codes, no traceback."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.nb.kernels import write_agents

on_posix = pytest.mark.skipif(os.name == "nt", reason="needs signals, ptys or /dev")

SCRIPTS = {
    "echo": '[[rule]]\ntext = "{last}"\n',
    "slow": '[[rule]]\ndelay = 60\ntext = "late"\n',
    "bad": '[[rule]]\nstatus = 401\nerror = "no such key"\n',
}


@pytest.fixture
def tree(project: Path) -> Path:
    write_agents(project, SCRIPTS)
    return project


def axe(
    *words: str, stdin: bytes | None = None, shell: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command line to its end; by the shell where it is part of one."""
    command = [sys.executable, "-m", "axe_nb", *words]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {shell}', "sh", *command] if shell else command,
        capture_output=True, timeout=60, check=False,
        **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
    )  # fmt: skip
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    return done


@pytest.mark.req("A-X0", "A-X1", "A-X2", "A-X3", "D-22")
def test_a_process_ends_with_the_code_of_what_happened(tree: Path) -> None:
    assert axe("run", "echo", "-p", "hi").stdout == b"hi\n"
    for words, code in {
        ("run", "echo", "-m", "nonsense"): 1,
        ("run", "nobody"): 2,
        ("run", "bad"): 3,
        ("walk",): 2,
    }.items():
        done = axe(*words)
        assert done.returncode == code
        assert done.stderr.startswith(b"error: ")


@pytest.mark.req("B-8")
@pytest.mark.parametrize(
    ("stdin", "answer"),
    [
        (b"from a pipe\n", b"from a pipe\n\n"),
        ("\ufeffWörter".encode(), "Wörter\n".encode()),
        (b"\xff!", "\ufffd!\n".encode()),
        (b"", b"Execute the task described in your instructions.\n"),
        (b" \n\t", b"Execute the task described in your instructions.\n"),
    ],
)
def test_what_is_piped_is_the_prompt_and_blank_is_the_fixed_sentence(
    stdin: bytes, answer: bytes, tree: Path
) -> None:
    done = axe("run", "echo", stdin=stdin)
    assert (done.returncode, done.stdout.replace(b"\r\n", b"\n")) == (0, answer)
    assert done.stderr == b""


@on_posix
def test_a_reader_that_goes_away_is_no_failure_to_talk_about(tree: Path) -> None:
    done = axe("run", "echo", stdin=b"x" * 200_000, shell="| true")
    assert (done.stdout, done.stderr) == (b"", b"")


@on_posix
@pytest.mark.parametrize(
    ("shell", "code", "told"),
    [
        ("> /dev/full", 1, b"error: No space left on device\n"),
        (">&-", 0, b""),
        ("<&-", 0, b""),
        ("2>&-", 0, b""),
    ],
)
def test_streams_that_are_full_or_closed_end_without_a_traceback(
    shell: str, code: int, told: bytes, tree: Path
) -> None:
    if "full" in shell and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    done = axe("run", "echo", "-p", "hi", shell=shell)
    assert (done.returncode, done.stderr) == (code, told)


@on_posix
@pytest.mark.req("D-38")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_an_interrupt_ends_the_run_at_once_with_130(flags: list[str], tree: Path) -> None:
    command = [sys.executable, "-m", "axe_nb", "run", "slow", "-p", "x", *flags, "-v"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr
        next(line for line in running.stderr if line.startswith(b"[turn 1] Sending"))
        asked = time.monotonic()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert time.monotonic() - asked < 20
    assert err.splitlines()[-1] == b"interrupted"
    assert out.count(b"\n") == ("--json" in flags)


def on_terminal(*words: str, typed: bytes = b"", whole: bool = False) -> tuple[int, bytes, bytes]:
    """(exit code, stdout, what the terminal at stderr got) of a command line."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "axe_nb", *words]
    out = theirs if whole else subprocess.PIPE
    with subprocess.Popen(command, stdout=out, stdin=theirs, stderr=theirs) as running:
        os.close(theirs)
        shown = b""
        os.write(ours, typed)
        with contextlib.suppress(OSError):  # the terminal's other end is closed
            while part := os.read(ours, 4096):
                shown += part
        answer, _ = running.communicate(timeout=60)
    os.close(ours)
    return running.returncode, answer, shown


@on_posix
def test_on_a_terminal_one_line_shows_who_is_at_work_and_goes_away(tree: Path) -> None:
    write_agents(tree, {"slow": '[[rule]]\ndelay = 1.0\ntext = "done"\n'})
    code, out, shown = on_terminal("run", "slow", "-p", "x")
    assert (code, out) == (0, b"done\n")
    lines = shown.split(b"\r")
    assert "slow · 1 turn · 0 calls · 0s".encode() in [line.strip() for line in lines]
    assert b"\n" not in shown
    assert lines[-1] == b""
    assert lines[-2].strip() == b""
    assert on_terminal("run", "slow", "-p", "x", "-q") == (0, b"done\n", b"")


WRITES = """
[[rule]]
when = { turn = 1 }
calls = [{ tool = "write_file", arguments = { path = "made.txt", content = "made" } }]
[[rule]]
text = "{results}"
"""


@pytest.fixture
def writer(tree: Path) -> Path:
    write_agents(tree, {"writer": WRITES}, writer='tools = ["write_file"]\n')
    return tree / "made.txt"


@on_posix
@pytest.mark.req("D-19", "D-48")
def test_a_person_at_the_terminal_is_asked_beside_the_answer(writer: Path) -> None:
    code, out, shown = on_terminal("run", "writer", "-p", "x", typed=b"y\n")
    assert code == 0
    assert b"writer wants to call write_file(" in shown
    assert b"wants" not in out
    assert writer.read_text("utf-8") == "made"


@pytest.mark.req("D-19")
def test_where_nobody_sits_at_a_terminal_the_call_is_denied_with_the_key_to_change(
    writer: Path,
) -> None:
    done = axe("run", "writer", "-p", "x")
    assert (done.returncode, writer.exists()) == (0, False)
    assert b'mode = "auto"' in done.stdout
    assert axe("run", "writer", "-p", "x", "--mode", "auto").returncode == 0
    assert writer.read_text("utf-8") == "made"


@on_posix
def test_what_a_model_answers_cannot_command_the_terminal(tree: Path) -> None:
    write_agents(tree, {"echo": '[[rule]]\ntext = "a\\u001B]0;title\\u0007b\\tc\\nd"\n'})
    _, _, shown = on_terminal("run", "echo", "-p", "x", "-q", whole=True)
    assert shown.decode() == "a�]0;title�b\tc\r\nd\r\n"
    assert axe("run", "echo", "-p", "x").stdout == b"a\x1b]0;title\x07b\tc\nd\n"


def test_an_error_that_a_script_does_not_catch_ends_with_its_next_step(tree: Path) -> None:
    code = "import axe_nb; axe_nb.run('ecko', 'x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-2:] == [
        "axe_nb.errors.ConfigError: agent config not found: ecko",
        'did you mean "echo"?',
    ]
