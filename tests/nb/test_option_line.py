"""Variables on option lines: a value is data, never another word and never an option."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from axe_nb.commands.option_table import RUN
from axe_nb.commands.parser import Options, UsageError, parse_run
from axe_nb.notebook.option_line import read_words
from tests.nb.kernels import Kernel, text

HOSTILE = [
    'x" --mode auto --tools run_command "y',
    "--mode=auto",
    "--mode auto",
    "-v",
    "--",
    "-",
    "it's \"quoted\" and 'more'",
    "two\nlines\r\n and\ttabs",
    "{braces} {{double}} $dollars $$ {r.text} {__import__('os').getcwd()}",
    "back\\slash \\n",
    "",
    " ",
    "semicolon;",
    "# no comment",
    "\ue000\ue001",
    "\0",
]


def options(line: str, **names: object) -> Options:
    return parse_run(read_words(RUN, "line", line, names), "line")


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "line", ['second -p "{r.text}"', "second -p {r.text}", "second {r.text}", "second '{r.text}'",
             'second "$r.text"', "second --prompt={r.text}", 'second -p "{r.text}";']
)  # fmt: skip
def test_a_value_stays_one_value_whatever_it_is(line: str, value: str) -> None:
    assert options(line, r=SimpleNamespace(text=value)) == Options(agent="second", prompt=value)


def test_a_value_is_never_the_name_of_an_option() -> None:
    for line in ("second {r.text} auto", "second -{r.text} auto", "second -q{r.text}"):
        with pytest.raises(UsageError) as wrong:
            options(line + " -p hello", r=SimpleNamespace(text="--mode"))
        assert "\0" not in "".join(wrong.value.lines())
        assert "x00" not in "".join(wrong.value.lines())
    with pytest.raises(UsageError, match='not "--x"'):
        options("second --timeout {r.text}", r=SimpleNamespace(text="--x"))
    with pytest.raises(UsageError, match="invalid choice: '--x'"):
        options("second --mode {r.text}", r=SimpleNamespace(text="--x"))


def test_a_variable_may_be_a_value_after_its_key() -> None:
    for given in ("--param=note={x}", "--param a=1 note={x}", "--param a=1 note=$x"):
        found = options(f"second {given} hello", x="the sea = blue")
        assert found.prompt == "hello"
        assert found.overrides.params["note"] == "the sea = blue"
    found = options("second --param a=1 'x={x} is that right?'", x=3)
    assert found.prompt == "x=3 is that right?"
    assert options("second -m{x}", x="p/m").overrides.model == "p/m"


def test_counts_of_regular_expressions_stay_as_they_are() -> None:
    names = {"n": 4}
    found = options(r'second -p "\d{4} a{2,} b{,3} c{1,2} {n} {{n}} $n"', **names)
    assert found.prompt == r"\d{4} a{2,} b{,3} c{1,2} 4 {n} 4"


@pytest.fixture
def cells(kernel: Kernel) -> Kernel:
    assert kernel.run("%load_ext axe_nb") == []
    kernel.run(
        "import axe_nb\n"
        "@axe_nb.script('says')\ndef says(r): return 'x\" --mode auto --tools run_command \"y'\n"
        "@axe_nb.script('echo')\ndef echo(r): return f'{r.last} {[t.name for t in r.tools]}'\n"
        "axe_nb.define(axe_nb.Agent('first', 'script/says'))\n"
        "axe_nb.define(axe_nb.Agent('second', 'script/echo'));"
    )
    kernel.run("%%axe first -o r\nhello")
    return kernel


def test_a_models_text_sets_no_options_in_a_kernel(cells: Kernel) -> None:
    for cell in (
        '%axe run second -o s -p "{r.text}"',
        "def f(value):\n    %axe run second -o s {value}\nf(r.text);",
        "get_ipython().run_line_magic('axe', 'run second -o s -p \"{r.text}\"');",
    ):
        cells.run(cell)
        said = text(cells.run("print(s.text); del s"))
        assert said == 'x" --mode auto --tools run_command "y []\n'
    cells.run("words = '-o t --mode auto'; other = 'second'")
    assert "--mode auto" in text(cells.run('%%axe "{words}"\nhello'))
    cells.run("%%axe {other} -o t\nhello\n")
    assert text(cells.run("print(t.text)")) == "hello []\n"
    assert "--save" in text(cells.run("%%axe_agent {'a --save'}\nmodel = 'script/echo'"))
