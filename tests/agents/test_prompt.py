"""What an agent is told before its first message: prompt, variables, skill and files."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

import axe_nb
from axe_nb import Agent, ConfigError, Request
from axe_nb.agents.prompt import LONGEST_PROMPT, brief, read_context
from axe_nb.agents.trust import trust_file
from axe_nb.conversion.interpolation import interpolate
from axe_nb.conversion.value_text import LONGEST_VALUE
from tests.files import put


class Broken:
    def __str__(self) -> str:
        raise ValueError("no words")


AGENT = Agent(name="a", model="p/m")
on_posix = pytest.mark.skipif(os.name == "nt", reason="needs links and fifos")


def paths(*patterns: str) -> list[str]:
    return [path for path, _ in brief(replace(AGENT, files=patterns)).files]


@pytest.mark.req("B-7")
def test_prompt_skill_and_files_are_joined_as_laid_down(project: Path) -> None:
    put("axe/skills/s.md", "Be short.\n")
    put("b.py", "print(1)\n")
    put("a/README", "read me")
    agent = replace(
        AGENT, system_prompt="You help.", skill="skills/s.md", files=("**/README", "*.py")
    )
    assert brief(agent).system == (
        "You help."
        "\n\n---\n\n## Skill\n\nBe short.\n"
        "\n\n---\n\n## Context Files\n\n"
        "### a/README\n```\nread me\n```"
        "\n\n"
        "### b.py\n```py\nprint(1)\n\n```"
    )


@pytest.mark.req("B-7", "D-12")
@pytest.mark.parametrize("blank", ["", " \n\t"])
def test_an_empty_part_leaves_no_delimiter(blank: str, project: Path) -> None:
    put("axe/blank.md", blank)
    put("axe/s.md", "S")
    put("f.md", "F")
    files = "\n\n---\n\n## Context Files\n\n### f.md\n```md\nF\n```"
    skill = "\n\n---\n\n## Skill\n\nS"
    empty = replace(AGENT, system_prompt=blank, skill="blank.md")
    assert brief(empty).system == ""
    assert brief(replace(empty, skill=blank)).system == ""
    assert brief(replace(empty, skill="s.md")).system == skill
    assert brief(replace(empty, files=("*.md",))).system == files
    assert brief(replace(empty, system_prompt="P", files=("*.md",))).system == "P" + files
    assert brief(replace(empty, system_prompt="P", skill="s.md")).system == "P" + skill


@pytest.mark.req("B-6")
def test_globs_are_relative_to_the_workdir_deduplicated_and_sorted(
    project: Path, tmp_path: Path
) -> None:
    for name in ("z.md", "docs/b.md", "docs/deep/a.md", "docs/note.txt"):
        put(f"work/{name}")
    put("outside.md")
    at_work = replace(AGENT, workdir="work")
    both = replace(at_work, files=("docs/**/*.md", "**/*.md", "docs/b.md"))
    assert [p for p, _ in brief(both).files] == ["docs/b.md", "docs/deep/a.md", "z.md"]
    assert brief(both).workdir == project / "work"
    found = [p for p, _ in brief(replace(at_work, files=("docs/**",))).files]
    assert found == ["docs/b.md", "docs/deep/a.md", "docs/note.txt"]


@pytest.mark.req("B-6")
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.md", ["a.md", "b.md"]), ("./a.md", ["a.md"]), ("[ab].md", ["a.md", "b.md"]),
        ("[!a].md", ["b.md"]), ("[]].md", []), ("?.md", ["a.md", "b.md"]), ("d**/*", ["docs/c.md"]),
        ("docs", []), ("nothing-here/*.md", []), ("**/*", ["a.md", "b.md", "docs/c.md"]),
        (".hidden", [".hidden"]), (".github/*.md", [".github/ci.md"]), ("docs/.*", ["docs/.s.md"]),
        ("a" * 300, []),
    ],
)  # fmt: skip
def test_a_glob_names_what_a_shell_would(pattern: str, found: list[str], project: Path) -> None:
    hidden = (".hidden", ".git/x.md", ".github/ci.md", "docs/.s.md")
    for name in ("a.md", "b.md", "docs/c.md", *hidden):
        put(name)
    context = brief(replace(AGENT, files=(pattern,)))
    assert [path for path, _ in context.files] == found
    assert context.warnings == (() if found else (f'no file matches "{pattern}" in files',))


@pytest.mark.req("B-6")
def test_files_that_are_binary_or_too_large_are_left_out_with_a_warning(project: Path) -> None:
    axe_nb.script("echo")(lambda request: "done")
    put("a.bin", b"\0text")
    put("b.bin", b"x" * 511 + b"\0")
    put("c.txt", b"x" * 512 + b"\0")
    put("latin.txt", "é".encode("latin-1"))
    put("big.txt", b"x" * (1024 * 1024 + 1))
    params = {"messages": [], "skill": "", "min_p": 0.1}
    agent = replace(AGENT, model="script/echo", files=("*.*",), params=params)
    found = dict(brief(agent).files)
    assert list(found) == ["c.txt", "latin.txt"]
    assert found["latin.txt"] == "\ufffd"
    assert axe_nb.run(agent, "hi").warnings == (
        "params.messages is not a parameter; the agent's own keys go above [params]",
        "params.skill is not a parameter; the agent's own keys go above [params]",
        "context file big.txt skipped: exceeds the limit of 1.0 MB per file or 8.4 MB in total",
        "binary files skipped: a.bin, b.bin",
    )
    for number in range(10):
        put(f"{number}.md", b"x" * 1024 * 1024)
    every = brief(replace(AGENT, files=("*.md",)))
    assert [p for p, _ in every.files] == [f"{number}.md" for number in range(8)]
    assert [w.split()[2] for w in every.warnings] == ["8.md", "9.md"]


@on_posix
@pytest.mark.req("B-6")
def test_links_out_of_the_workdir_are_left_out(project: Path, tmp_path: Path) -> None:
    put(str(tmp_path / "secret.md"), "secret")
    put("work/in.md", "in")
    Path("work/out.md").symlink_to(tmp_path / "secret.md")
    Path("work/folder").symlink_to(tmp_path)
    Path("work/gone.md").symlink_to("nowhere")
    Path("work/same.md").symlink_to("in.md")
    at_work = replace(AGENT, workdir="work", files=("**/*.md", "folder/*.md"))
    assert [p for p, _ in brief(at_work).files] == ["in.md", "same.md"]
    [warning] = brief(at_work).warnings
    assert warning.startswith("links out of the workdir skipped: folder/secret.md, out.md")


@on_posix
@pytest.mark.timeout(20)
@pytest.mark.req("B-6")
def test_links_that_lead_back_and_fifos_do_not_keep_it_busy(project: Path) -> None:
    put("d/a.md")
    for name in ("one", "two", "three"):
        Path("d", name).symlink_to(project)
    Path("d/loop").symlink_to("loop")
    os.mkfifo("d/fifo.md")
    assert paths("**/*.md", "**/nothing") == ["d/a.md"]


@pytest.mark.req("B-6", "D-42", "A-X2")
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[a", "unclosed bracket"), ("docs/[]x", "unclosed bracket"),
        ("docs/[!]", "unclosed bracket"), ("a[b]c[", "unclosed bracket"),
        ("docs/*.{md,txt}", "braces are not supported; write one glob for each alternative"),
        ("", "blank"), (" ", "blank"), ("/etc/*.conf", "leads out of the workdir"),
        ("../*.md", "leads out of the workdir"), ("a/../../*.md", "leads out of the workdir"),
        (".", ""),
    ],
)  # fmt: skip
def test_what_is_no_glob_is_refused(pattern: str, why: str, project: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        brief(replace(AGENT, files=(pattern,)))
    assert str(caught.value).startswith(f'invalid glob pattern "{pattern}": {why}')
    assert caught.value.exit_code == 2


@pytest.mark.req("B-6")
def test_without_a_workdir_the_current_folder_is_it(project: Path, tmp_path: Path) -> None:
    assert brief(AGENT).workdir == project
    assert brief(replace(AGENT, workdir=" ")).workdir == project
    assert brief(replace(AGENT, workdir="axe")).workdir == project / "axe"
    assert brief(replace(AGENT, workdir=str(tmp_path))).workdir == tmp_path


@pytest.mark.req("B-6")
@pytest.mark.parametrize("workdir", ["gone", "file.txt", "~nobody-of-this-name", "a" * 300, "a\0b"])
def test_a_workdir_that_is_not_there_is_told(workdir: str, project: Path) -> None:
    put("file.txt")
    with pytest.raises(ConfigError) as caught:
        brief(replace(AGENT, workdir=workdir))
    assert caught.value.lines() == [
        f"workdir not found: {workdir}".replace("\0", "\ufffd"),
        'fix `workdir` in agent "a", or pass --workdir',
    ]  # fmt: skip
    assert caught.value.exit_code == 2


@pytest.mark.req("B-6")
def test_a_skill_is_found_absolute_beside_the_agents_or_in_the_config_folder(
    project: Path, tmp_path: Path
) -> None:
    put("axe/one.md", "beside")
    put(str(tmp_path / "config" / "axe" / "one.md"), "hidden by the first")
    put(str(tmp_path / "config" / "axe" / "two.md"), "config")
    put(str(tmp_path / "team" / "one.md"), "team")
    assert brief(replace(AGENT, skill="one.md")).skill == "beside"
    assert brief(replace(AGENT, skill="two.md")).skill == "config"
    assert brief(replace(AGENT, skill=str(tmp_path / "team" / "one.md"))).skill == "team"
    loaded = replace(AGENT, path=str(tmp_path / "team" / "agents" / "a.toml"))
    assert brief(replace(loaded, skill="one.md")).skill == "team"
    assert brief(replace(loaded, skill="two.md")).skill == "config"


@pytest.mark.req("B-6", "A-X2")
@pytest.mark.parametrize(
    ("skill", "told"),
    [
        ("gone.md", "skill not found: gone.md"), ("/gone/s.md", "skill not found: /gone/s.md"),
        ("agents/a.toml/x.md", "skill not found: agents/a.toml/x.md"),
        ("bytes.md", "failed to read skill bytes.md: not UTF-8 (at line 1)"),
        ("long.md", "failed to read skill long.md: larger than 1048576 bytes"),
        ("agents", "failed to read skill agents: not a file"),
    ],
)  # fmt: skip
def test_a_skill_that_is_not_there_or_cannot_be_read_is_told(
    skill: str, told: str, project: Path
) -> None:
    put("axe/agents/a.toml")
    put("axe/bytes.md", b"\xff")
    put("axe/long.md", b"x" * 2**21)
    with pytest.raises(ConfigError) as caught:
        brief(replace(AGENT, skill=skill))
    assert str(caught.value) == told
    assert caught.value.exit_code == 2
    assert caught.value.hint.startswith('fix `skill` in agent "a"')


@pytest.mark.req("D-83")
def test_what_may_hold_keys_is_sent_to_no_model(project: Path, tmp_path: Path) -> None:
    put(".env", "KEY=SECRET")
    put(".aws/credentials", "SECRET")
    put("a.md", "fine")
    put("envs/dev", "KEY=SECRET")
    files = "*.md", ".env", ".aws/*"
    assert paths(*files) == ["a.md"]
    told = "files that may hold keys skipped: .aws/credentials, .env"
    assert brief(replace(AGENT, files=files)).warnings == (told,)
    if os.name != "nt":
        Path(".env.local").symlink_to("envs/dev")
        assert paths("envs/*") == [], "a link with the name of a key file leads there"
        Path("notes.md").symlink_to(project / ".env")
        assert paths("*.md") == ["a.md"]
        put("axe/skills/other.md")
        Path("axe/skills/s.md").symlink_to(project / ".env")
        with pytest.raises(ConfigError, match="was not read: it may hold keys or passwords"):
            brief(replace(AGENT, skill="skills/s.md"))
    put(str(tmp_path / "config/axe/config.toml"), "SECRET")
    for skill in (str(project / ".env"), "../.env", "../.aws/credentials", "config.toml"):
        with pytest.raises(ConfigError, match="was not read: it may hold keys or passwords"):
            brief(replace(AGENT, skill=skill))


@pytest.mark.req("D-53")
@pytest.mark.parametrize("exchanged", ["docs/a.md", "docs"])
def test_a_link_that_takes_the_place_of_a_context_file_is_not_followed(
    project: Path, tmp_path: Path, exchanged: str
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.md").write_text("secret")
    (project / "docs").mkdir()
    (project / "docs" / "a.md").write_text("fine")
    agent = Agent(name="a", model="script/x", files=("docs/*.md",))
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    assert read_context(agent, count).files == (("docs/a.md", "fine"),)
    last, calls = calls, 0

    def exchange() -> None:
        count()
        if calls == last:
            target = tmp_path / "other" / exchanged.removeprefix("docs").removeprefix("/")
            (project / exchanged).rename(project / "old")
            (project / exchanged).symlink_to(target)

    found = read_context(agent, exchange)
    assert found.files == ()
    assert found.warnings == ("links out of the workdir skipped: docs/a.md",)


@pytest.mark.req("D-53", "D-81")
def test_a_skill_that_is_exchanged_for_a_link_out_of_the_project_is_not_read(
    project: Path, tmp_path: Path
) -> None:
    trust_file().unlink()
    (tmp_path / "other.md").write_text("secret")
    skill = project / "axe" / "skills" / "a.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("fine")
    text = 'name = "a"\nmodel = "script/x"\nskill = "skills/a.md"\n'
    (project / "axe" / "agents" / "a.toml").write_text(text)
    agent = Agent.load("a")
    assert read_context(agent).skill == "fine"
    skill.unlink()
    skill.symlink_to(tmp_path / "other.md")
    with pytest.raises(ConfigError, match="was replaced by a link out of the project"):
        read_context(agent)


def filled(prompt: str, **values: object) -> str:
    return brief(Agent(name="a", model="p/m", system_prompt=prompt, vars=values)).system


SAME_AS_IN_A_CELL = {
    "{{ x }}": "VALUE",
    "{{x}}, {{\n x\t}}!": "VALUE, VALUE!",
    r"\{{ x }} and {{ x }}": "{{ x }} and VALUE",
    r"\{{{ x }}}": "{{{ x }}}",
    "{{2}} {{ None }} {{ [1, 2] }} {{ else }} {{}} {{ }}": (
        "{{2}} {{ None }} {{ [1, 2] }} {{ else }} {{}} {{ }}"
    ),
    "{{ x": "{{ x",
    '{"a": {"b": {x}}} $x \\frac{x}{y} {% if x %}': '{"a": {"b": {x}}} $x \\frac{x}{y} {% if x %}',
}


@pytest.mark.req("D-40")
@pytest.mark.parametrize("prompt", SAME_AS_IN_A_CELL)
def test_braces_mean_what_they_mean_in_a_cell(prompt: str) -> None:
    assert filled(prompt, x="VALUE") == SAME_AS_IN_A_CELL[prompt]
    assert interpolate(prompt, {"x": "VALUE"}) == SAME_AS_IN_A_CELL[prompt]


def test_only_names_are_filled_in_and_nothing_is_evaluated_or_expanded_again() -> None:
    prompt = "{{ x.y }} {{ x() }} {{ __import__('os') }} {{ x | upper }}"
    assert filled(prompt, x="VALUE") == prompt
    assert filled("{{ a }}{{ b }}", a="{{ b }}", b=r"\{{ a }}") == r"{{ b }}\{{ a }}"


def test_a_value_without_text_is_an_error_that_names_it() -> None:
    for value, problem in (
        (b"x", "is of type bytes"),
        (len, "which cannot be converted to text"),
        (Broken(), "no words"),
    ):
        with pytest.raises(ConfigError, match=rf'^variable "a" .*{problem}'):
            filled("{{ a }}", a=value)


@pytest.mark.req("D-27")
def test_an_unknown_name_is_an_error_with_its_file_and_line(project: Path) -> None:
    axe_nb.script("never")(say_system)
    (project / "axe" / "agents" / "lead.toml").write_text(
        'name = "lead"\nmodel = "script/never"\n\nsystem_prompt = """\n'
        'Write \\\\{{ lnguage }}.\nIn {{ lnguage }}.\n"""\n[vars]\nlanguage = "English"\n',
        "utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        axe_nb.run("lead", "x")
    assert caught.value.lines() == [
        'unknown variable "lnguage" in {{ lnguage }} of system_prompt; did you mean language?',
        "in axe/agents/lead.toml, line 6",
        r"set it under [vars] or with --var lnguage=…, or write \{{ for literal braces",
    ]
    assert axe_nb.last() is None, "nothing was sent"


@pytest.mark.parametrize("name", ["a-b", "1a", "", "class", "a b"])
def test_a_variable_that_no_prompt_can_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^vars\.") as caught:
        Agent.from_toml(f'name = "a"\nmodel = "p/m"\n[vars]\n"{name}" = 1\n')
    assert "line 4" in caught.value.place


def test_long_values_are_cut_and_a_short_file_makes_no_huge_prompt() -> None:
    text = filled("{{ a }}", a="x" * (LONGEST_VALUE + 7))
    assert text.endswith("[7 more characters left out]")
    many = "{{a}}" * (LONGEST_PROMPT // LONGEST_VALUE + 1)
    with pytest.raises(ConfigError, match=r"system_prompt of agent .* is longer than 4,000,000"):
        filled(many, a="x" * LONGEST_VALUE)


def say_system(request: Request) -> str:
    return request.system


def make_tree() -> list[tuple[str, str]]:
    """A lead and two agents below it; what each was told."""
    told: list[tuple[str, str]] = []

    @axe_nb.script("notes")
    def notes(request: Request) -> object:
        told.append((request.agent, request.system))
        if request.agent == "lead" and request.turn == 1:
            return [
                axe_nb.ToolCall(f"c{n}", "call_agent", {"agent": name, "task": "t"})
                for n, name in enumerate(("tuned", "jinja"))
            ]
        return "done"

    prompt = "{{ tone }} {{ place }}"
    make = lambda name, **more: axe_nb.define(  # noqa: E731
        Agent(name=name, model="script/notes", system_prompt=prompt, **more)
    )
    make("lead", vars={"tone": "warm", "place": "here"}, sub_agents=["tuned", "jinja"])
    make("tuned", vars={"tone": "dry", "place": "below"})
    make("jinja")
    return told


def test_a_run_sets_the_variables_of_every_agent_that_has_them() -> None:
    told = make_tree()
    axe_nb.run("lead", "go")
    assert dict(told) == {
        "lead": "warm here", "tuned": "dry below", "jinja": "{{ tone }} {{ place }}",
    }  # fmt: skip
    told.clear()
    result = axe_nb.run("lead", "go", vars={"tone": "{{ place }}"})
    assert result.ok
    assert dict(told) == {
        "lead": "{{ place }} here", "tuned": "{{ place }} below",
        "jinja": "{{ tone }} {{ place }}",
    }  # fmt: skip


def test_a_run_may_set_what_the_agent_only_names(project: Path) -> None:
    axe_nb.script("system")(say_system)
    agent = Agent(name="a", model="script/system", system_prompt="In {{ language }}.")
    assert axe_nb.run(agent, "x").text == "In {{ language }}."
    assert axe_nb.run(agent, "x", vars={"language": "French"}).text == "In French."


def test_a_variable_that_no_agent_of_the_tree_has_is_an_error() -> None:
    told = make_tree()
    with pytest.raises(ConfigError) as caught:
        axe_nb.run("lead", "go", vars={"tnoe": "x"})
    assert caught.value.lines() == [
        'no agent in this run has the variable "tnoe"', 'did you mean "tone"?'
    ]  # fmt: skip
    axe_nb.define(Agent(name="tuned", model="script/notes", vars={"deep": 1}))
    axe_nb.run("lead", "go", vars={"deep": 2})
    with pytest.raises(ConfigError, match="vars takes a dict"):
        axe_nb.run("lead", "go", vars=["tone"])  # type: ignore[arg-type]
    assert told


@pytest.mark.req("X-18")
def test_a_copy_of_the_caller_has_its_values_and_a_spawned_child_keeps_braces() -> None:
    told: list[str] = []

    @axe_nb.script("copies")
    def copies(request: Request) -> object:
        told.append(request.system)
        if request.agent == "a" and request.turn == 1:
            return [
                axe_nb.ToolCall("1", "subagent", {"label": "l", "task_prompt": "t"}),
                axe_nb.ToolCall("2", "spawn_agent", {"task": "say {{ x }} and {{ y }}"}),
            ]
        return "done"

    agent = Agent(
        name="a", model="script/copies", system_prompt="X: {{ x }}", vars={"x": "{{ x }}"},
        tools=["subagent", "spawn_agent"],
    )  # fmt: skip
    result = axe_nb.run(agent, "go")
    assert [child.status for child in result.children] == ["completed"] * 2
    assert sum(text.startswith("X: {{ x }}") for text in told) >= 2
    assert any("say {{ x }} and {{ y }}" in text for text in told)
