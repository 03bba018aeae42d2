"""`%%axe_agent`: TOML in a cell becomes an agent; its file keeps what the person wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nb.kernels import Kernel, text

COMMENTED = '''\
# Who reads the handbook. Keep this comment.

description = "Reads"            # for people
name = "reader"
model   =   "script/echo"        # spaces as they are

system_prompt = """
You read {{ this }} and >>> that.
    >>> indented
"""

[params]           # the last table
temperature = 0.5
'''

ECHO = '[[rule]]\ntext = "You said: {last}"\n'


@pytest.fixture
def cells(each_kernel: Kernel, project: Path) -> Kernel:
    (project / "axe" / "scripts").mkdir()
    (project / "axe" / "scripts" / "echo.toml").write_text(ECHO, "utf-8")
    assert each_kernel.run("%load_ext axe_nb") == []
    return each_kernel


def test_a_cell_defines_an_agent_for_this_session_and_shows_it(
    project: Path, cells: Kernel
) -> None:
    said = text(
        cells.run(
            '%%axe_agent lead\nmodel = "script/echo"\nsub_agents = ["reader", "ghost"]\n'
            'tools = ["grep", "subagent"]\n[permissions]\ngrep = "deny"'
        )
    )
    assert said == (
        "lead: script/echo, mode ask\n"
        "Allowed:        call_agent, subagent\n"
        "Denied:         grep\n"
        "lead  (up to 3 levels)\n"
        "├─ reader  ✗ agent config not found: reader\n"
        "├─ ghost  ✗ agent config not found: ghost\n"
        "└─ copies of itself, by subagent"
    )
    [card] = cells.run('%%axe_agent reader\nmodel = "script/echo"')
    assert card["type"] == "display_data"
    assert card["data"]["text/plain"] == "reader: script/echo, mode ask"
    assert "<strong>reader</strong>" in card["data"]["text/html"]
    assert text(cells.run("%%axe reader -q\nhi")) == "You said: hi"
    assert list((project / "axe" / "agents").iterdir()) == [], "no file without --save"


MISTAKES = {
    'model = "script/echo"\nsystem_promt = "x"': (
        'unknown key "system_promt" (line 3)', 'did you mean "system_prompt"?',
    ),
    'model = "script/echo"\n\n[sub_agents_config]\nmax_deph = 2': ("(line 5)", '"max_depth"?'),
    'model = "script/echo"\nworkdir = "C:\\Users\\x"': (
        "Invalid hex value (at line 3, column", "backslashes in single quotes",
    ),
    'model = "script/echo"\n# why\nmode = "atuo"': (
        'mode must be plan, ask or auto, not "atuo"', "line 4",
    ),
    'model = "echo"': ('invalid model format "echo": expected provider/model-name', "line 2"),
    '\nmodel = "opanai/gpt"': (
        'unsupported provider "opanai": supported providers are', "line 3",
        "did you mean openai?",
    ),
    'model = "script/echo"\ntools = [\n  "read_file",\n  "grap",\n]': (
        'unknown tool "grap" in agent "x"', "line 5", 'did you mean "grep"?',
    ),
    'model = "script/echo"\nname = "y"': (
        'name is "y" (line 3), but the magic says "x"',
        "use the same name in both, or omit `name`",
    ),
    'model = "script/echo"\nsystem_prompt = """\nnever closed\n': ("line 4",),
    'description = "x"': ("agent config missing required field: model", "line 1"),
}  # fmt: skip
"""TOML of an agent `x` → what its error must say."""


@pytest.mark.req("D-27", "D-41", "D-36")
def test_a_mistake_is_told_with_the_line_that_the_editor_shows(cells: Kernel) -> None:
    for toml, told in MISTAKES.items():
        [error] = cells.run(f"%%axe_agent x\n{toml}")
        whole = "\n".join(error["traceback"])
        for part in told:
            assert part in whole, (toml, whole)
        assert len(whole.splitlines()) <= 3
    assert "agent config not found: x" in text(cells.run("%%axe x\nhi")), "nothing was defined"


def test_saving_writes_what_was_typed_with_its_name_added(cells: Kernel) -> None:
    said = text(cells.run('%%axe_agent new --save\n# NBVAL_SKIP\n# a comment\nmodel = "script/x"'))
    assert "written to axe/agents/new.toml" in said
    assert '! script not found: x (line 4); before a run, define @axe_nb.script("x")' in said
    new = Path("axe/agents/new.toml").read_text("utf-8")
    assert new == 'name = "new"\n# a comment\nmodel = "script/x"\n'


def test_an_agent_that_is_edited_and_saved_changes_only_where_it_was_changed(
    project: Path, cells: Kernel
) -> None:
    file = project / "axe" / "agents" / "reader.toml"
    for ends in ("\n", "\r\n"):
        before = COMMENTED.replace("\n", ends)
        file.write_bytes(before.encode())
        cells.run("%axe edit reader")
        cell = cells.next_cell()
        assert cell == f"%%axe_agent reader --save\n{COMMENTED.removesuffix(chr(10))}"
        said = text(cells.run(cell))
        assert "axe/agents/reader.toml is unchanged" in said
        assert file.read_bytes().decode() == before
        said = text(cells.run(cell.replace("temperature = 0.5", "temperature = 0.7")))
        assert said.endswith(
            "written to axe/agents/reader.toml:\n--- before\n+++ now\n@@ -10,4 +10,4 @@\n"
            ' """\n \n [params]           # the last table\n'
            "-temperature = 0.5\n+temperature = 0.7"
        )
        assert file.read_bytes().decode() == before.replace("0.5", "0.7")


def test_what_is_saved_is_the_file_that_counts_from_then_on(project: Path, cells: Kernel) -> None:
    cells.run('%%axe_agent a --save\nmodel = "script/echo"')
    file = project / "axe" / "agents" / "a.toml"
    file.write_text('name = "a"\nmodel = "script/other"\n', "utf-8")
    assert "script not found: other" in text(cells.run("%%axe a\nhi"))
    cells.run('%%axe_agent a\nmodel = "script/echo"')
    assert text(cells.run("%%axe a -q\nhi")) == "You said: hi", "a cell without --save wins"
    cells.run('%%axe_agent b --save --dir elsewhere/agents\nmodel = "script/echo"')
    assert (project / "elsewhere" / "agents" / "b.toml").exists()
    assert text(cells.run("%%axe b -q\nhi")) == "You said: hi", "not found by name, so it is kept"


def test_editing_gives_back_the_toml_of_the_cell_or_of_the_python_agent(cells: Kernel) -> None:
    cells.run('%%axe_agent a\n# mine\nmodel = "script/echo"\n')
    cells.run("%axe edit a")
    assert cells.next_cell() == '%%axe_agent a --save\n# mine\nmodel = "script/echo"'
    cells.run("import axe_nb; axe_nb.define(axe_nb.Agent(name='p', model='script/echo'))")
    cells.run("%axe edit p")
    assert cells.next_cell() == '%%axe_agent p --save\nname = "p"\nmodel = "script/echo"'
