"""Help pages: complete, with examples that the parsers accept, at 80 columns and in colour."""

import io
import re
import shlex
import subprocess
import sys

import pytest

from axe_nb import cli
from axe_nb.agents.agent import Agent
from axe_nb.commands.examples import EXAMPLES, OF_CELLS, OF_COMMANDS, OF_LINES
from axe_nb.commands.grid_command import GRID
from axe_nb.commands.options import FACES, OPTION_GROUPS, OPTIONS, Face
from axe_nb.commands.pages import join, paint
from axe_nb.commands.parser import UsageError, parse, parse_run, parser
from axe_nb.commands.program import PROGRAM, command_of
from axe_nb.commands.table import AGENT_CELL, COMMANDS, PROGRAMS, RUN, Command, commands_of
from axe_nb.expectations.language import parse as parse_expectations
from axe_nb.nb.help import GROUPS, help_text, make_line_page
from axe_nb.nb.line_magic import RESULT
from axe_nb.nb.option_line import read_words

pytestmark = pytest.mark.req("B-12")

NAMES = {"folder": "more/agents", "name": "critic", "draft": "A text."}
"""Variables that examples of lines use."""

CALL = re.compile(r"axe-nb\b[^|&>)]*")
"""A call of the command within a line of a shell."""

FACE_COMMANDS: list[tuple[Face, Command]] = [
    (face, command) for command in (*COMMANDS, GRID) for face in FACES if face in command.words
]


def page_of(face: Face, command: Command) -> str:
    return join(parser(command, face).page)


def test_every_page_has_three_examples_and_every_example_a_page() -> None:
    programs = {command.program(face) for face, command in FACE_COMMANDS}
    assert EXAMPLES.keys() - programs == {PROGRAM, f"{PROGRAM} agents", f"{PROGRAM} config", "%axe"}
    assert programs - EXAMPLES.keys() == set()
    alone = {c.program("line") for c in commands_of("line").values() if not c.options}
    assert {program: len(found) for program, found in EXAMPLES.items()} == {
        program: 1 if program in alone else 3 for program in EXAMPLES
    }


@pytest.mark.parametrize("code", [one.code for found in OF_CELLS.values() for one in found])
def test_the_examples_of_cells_are_accepted(code: str) -> None:
    line, _, body = code.partition("\n")
    magic, _, rest = line.partition(" ")
    assert body
    if magic == "%%axe_agent":
        name = parse(AGENT_CELL, "cell", rest).agent
        assert not Agent.from_toml(f'name = "{name}"\n{body}').warnings
    elif magic == "%%axe_grid":
        assert parse(GRID, "cell", rest).inputs
    else:
        assert magic == "%%axe"
        parse_run(rest, "cell")


@pytest.mark.parametrize("code", [one.code for found in OF_LINES.values() for one in found])
def test_the_examples_of_lines_are_accepted(code: str) -> None:
    magic, verb, *_ = code.split()
    assert magic == "%axe"
    command, rest = commands_of("line")[verb], code.partition(verb)[2]
    if command.is_verbatim:
        found = RESULT.match(rest)
        parse_expectations(found[2] if found else rest)
    elif command is RUN:
        parse_run(read_words(RUN, "line", rest, NAMES), "line")
    else:
        parse(command, "line", read_words(command, "line", rest, NAMES))


@pytest.mark.parametrize("code", [one.code for found in OF_COMMANDS.values() for one in found])
def test_the_examples_of_the_command_are_accepted(code: str) -> None:
    calls = CALL.findall(code)
    assert calls
    for call in calls:
        command, rest = command_of(shlex.split(re.sub(r" 2?$", "", call))[1:])
        if command is RUN:
            parse_run(rest, "command")
        else:
            parse(command, "command", rest)


@pytest.mark.parametrize("columns", [80, 40])
def test_no_line_is_wider_than_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    pages = [page_of(face, command) for face, command in FACE_COMMANDS]
    pages += [help_text(topic) for topic in ("cell", "line", "agent", "grid")]
    if columns < 80:  # nothing fails; examples stay as they are typed
        return
    code = {line for found in EXAMPLES.values() for one in found for line in one.code.split("\n")}
    wide = [line for page in pages for line in page.split("\n") if len(line) > columns]
    assert [line for line in wide if line.strip() not in code] == []
    typed = [line for line in code if len(line) > 78]
    assert [line for line in typed if not line.startswith("%%axe_grid")] == []


def test_options_are_in_groups_with_their_defaults() -> None:
    assert {option.group for option in OPTIONS} == set(OPTION_GROUPS)
    page = page_of("command", RUN)
    at = [page.index(f"\n{heading}\n") for heading in ["Arguments", *OPTION_GROUPS, "Examples"]]
    assert at == sorted(at)
    words = " ".join(page.split())
    assert "0 = no limit (default 120)" in words
    assert "plan, ask, auto (default: the agent's, else ask)" in words
    alone = page_of("command", commands_of("command")["doctor"])
    assert "\nOptions\n  --agents-dir D  " in alone


def test_every_command_of_a_notebook_is_in_one_group() -> None:
    listed = [word for words in GROUPS.values() for word in words]
    assert sorted(listed) == sorted(commands_of("line"))
    page = join(make_line_page())
    assert [c.use("line") for c in commands_of("line").values() if c.use("line") not in page] == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_page_is_in_colour_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.name", "posix")
    page = parser(RUN, "command").page
    plain = join(page)
    assert paint(page, io.StringIO()) == paint(page, None) == plain
    coloured = paint(page, Terminal())
    assert "\x1b[36m  -m, --model P/M" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint(page, Terminal()) == plain
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert paint(page, Terminal()) == plain


def test_help_and_a_command_is_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert said("help", "run") == said("run", "--help")
    assert said("help", "agents", "show") == said("agents", "show", "-h")
    assert said("help", "config") == said("config", "-h")
    assert said("help") == said("--help")


@pytest.mark.parametrize(
    ("line", "face", "advice"),
    [("show --help", "line", "see %axe help show"), ("--help", "cell", "see %%axe?")],
)
def test_help_is_found_from_where_there_is_no_such_option(
    line: str, face: Face, advice: str
) -> None:
    command = commands_of("line")["show"] if face == "line" else RUN
    with pytest.raises(UsageError, match=re.escape(advice)):
        parse(command, face, line.removeprefix("show ") if face == "line" else line)


def test_the_version_is_printed_without_what_colours_need() -> None:
    code = (
        "import sys; from axe_nb.cli import main; main(['--version'])\n"
        "assert not {'pygments', 'IPython', 'httpx'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("axe-nb ")
    assert PROGRAMS["command"].startswith(PROGRAM)
