"""The pytest plug-in, in projects of its own: fixtures, modes, and what a miss looks like."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from axe_nb import script, script_server
from axe_nb.recording import modes
from axe_nb.testing import pytest_plugin

PLUGIN = ("-p", "axe_nb.testing.pytest_plugin", "-p", "no:cacheprovider")

TOWNS = """
import axe_nb
import pytest

@pytest.fixture(autouse=True)
def guide():
    axe_nb.define(axe_nb.Agent(name="guide", model="openai/guide", system_prompt={prompt!r}))

@pytest.mark.parametrize("town", ["Rome", "New York/NY"])
def test_about(town, axe_cassette):
    result = axe_nb.run("guide", f"About {{town}}")
    {check}
    assert result.text == f"About {{town}}: fine"
"""

RAISES = "result.raise_for_status()"


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def recorded(pytester: pytest.Pytester) -> Path:
    """The folder of the cassettes of a test that ran with a server, which is off now."""
    script("guide")(lambda request: f"{request.last}: fine")
    write(pytester, "You know towns.")
    with script_server("openai") as server:
        pytester.runpytest_inprocess(*PLUGIN, "--axe-mode", "record").assert_outcomes(passed=2)
        assert len(server.requests) == 2
    return pytester.path / "cassettes" / "test_towns"


def write(pytester: pytest.Pytester, prompt: str, check: str = RAISES) -> None:
    pytester.makepyfile(test_towns=TOWNS.format(prompt=prompt, check=check))


def test_each_test_has_a_cassette_of_its_name_that_replays_without_the_server(
    recorded: Path, pytester: pytest.Pytester
) -> None:
    names = sorted(path.name for path in recorded.iterdir())
    assert names[1] == "test_about-Rome.axe"
    assert names[0].startswith("test_about-New-York-NY-")
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=2)


def test_a_miss_is_shown_as_a_difference_in_a_few_lines(
    recorded: Path, pytester: pytest.Pytester
) -> None:
    write(pytester, "You know all towns.")
    result = pytester.runpytest_inprocess(*PLUGIN, "-k", "Rome", "--no-header")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines([
        "test_towns.py:*: in test_about",
        "    result.raise_for_status()",
        "E   *CassetteMiss: cassette cassettes/test_towns/test_about-Rome.axe has no answer for "
        'agent guide at 0/1: its system prompt changed: "You know towns." → "You know all towns."',
        "E   record it with: pytest --axe-mode auto 'test_towns.py::test_about[[]Rome]'",
    ])  # fmt: skip
    assert "axe_nb/" not in result.stdout.str().replace("axe_nb/testing/pytest_plugin", "")
    assert len(result.outlines) < 20


def test_a_test_that_passes_in_spite_of_a_miss_or_whose_assertion_fails_after_it_says_so(
    recorded: Path, pytester: pytest.Pytester
) -> None:
    miss = "cassette * has no answer for agent guide at 0/1: *"
    write(pytester, "You know all towns.", check="return")
    result = pytester.runpytest_inprocess(*PLUGIN, "-k", "Rome")
    result.assert_outcomes(passed=1, errors=1, deselected=1)
    result.stdout.fnmatch_lines([miss])
    write(pytester, "You know all towns.", check="")
    result = pytester.runpytest_inprocess(*PLUGIN, "-k", "Rome")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*- not in the cassette -*", miss])


def test_the_temporary_folder_of_a_test_may_be_part_of_a_prompt(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_one="""
        import axe_nb

        def test_folder(axe_script, axe_cassette, tmp_path):
            agent = axe_nb.Agent(name="one", model=axe_script("one", lambda request: request.last))
            result = axe_nb.run(agent, f"Look at {tmp_path}/a.txt")
            assert result.text == f"Look at {tmp_path}/a.txt"
        """
    )
    pytester.runpytest_inprocess(*PLUGIN, "--axe-mode", "record").assert_outcomes(passed=1)
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)
    cassette = pytester.path / "cassettes" / "test_one" / "test_folder.axe"
    text = cassette.read_text("utf-8")
    assert text.count("Look at ⟨tmp_path⟩/a.txt") == 2


def test_a_script_is_there_for_one_test_only(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import axe_nb, pytest

        def ask(model):
            return axe_nb.run(axe_nb.Agent(name="one", model=model), "Hello")

        def test_function(axe_script):
            assert ask(axe_script("one", lambda request: request.last.upper())).text == "HELLO"

        @pytest.mark.parametrize("rules", [[{"text": "{last}!"}], '[[rule]]\\ntext = "{last}!"'])
        def test_rules(axe_script, rules):
            assert ask(axe_script("one", rules)).text == "Hello!"

        def test_gone():
            with pytest.raises(axe_nb.ConfigError, match="script not found: one"):
                ask("script/one").raise_for_status()

        def test_invalid(axe_script):
            with pytest.raises(axe_nb.ConfigError, match="the rules of one"):
                axe_script("one", "[[rule]]\\nwhat = 1")
            with pytest.raises(axe_nb.ConfigError, match="must be plain"):
                axe_script("../one", lambda request: "")
        """
    )
    pytester.runpytest_inprocess(*PLUGIN, "-p", "no:randomly").assert_outcomes(passed=5)


def test_it_loads_nothing_of_the_core() -> None:
    code = "import pytest, sys; before = {*sys.modules}; import axe_nb.testing.pytest_plugin\n"
    code += "print(*sorted(name for name in sys.modules.keys() - before if 'axe_nb' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert pytest_plugin.MODES == modes.MODES
    assert done.stdout.split() == ["axe_nb", "axe_nb.testing", "axe_nb.testing.pytest_plugin"]
