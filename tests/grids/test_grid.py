"""A grid of runs: its squares, figures, comparisons and page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import axe_nb
from axe_nb import Agent, Request
from axe_nb.errors import ConfigError
from axe_nb.exploring.grid import Grid, show_grid
from tests.grids.grids import fill

pytestmark = pytest.mark.req("E-5")


@pytest.fixture
def grid() -> Grid:
    """Two variants on three inputs, twice."""
    old = ["right", "no", "no", "right", "right", "no"]
    new = ["right", "right", "no", "no", "right", "no"]
    return fill(["a", "b", "c"], 2, old=old, new=new)


def test_a_square_is_found_by_numbers_and_labels(grid: Grid) -> None:
    assert (grid.inputs, grid.variants) == (("a", "b", "c"), ("old", "new"))
    assert grid[1, 1] is not grid["b", "new"]
    assert [run.result.text for run in grid[0, 1]] == ["right", "no"]
    assert [run.result.text for run in grid["a", "new"]] == ["right", "no"]
    assert grid[-1, 0].passed == grid[np.int64(2), np.int64(0)].passed == 0
    assert repr(grid["a", "new"]) == "a × new: 1 of 2 runs passed\n  ✓ right\n  ✗ no"


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (("x", 0), 'unknown input "x"'),
        ((0, "nwe"), 'unknown variant "nwe"\nits variants are "old", "new"'),
        ((0, "other"), 'unknown variant "other"\nits variants are "old", "new"'),
        ((3, 0), "no input 3; there are 3, numbered from 0"),
        (0, r"grid\[input, variant\]"),
    ],
)
def test_a_wrong_place_is_told(grid: Grid, place: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        grid[place]  # type: ignore[index]


def test_two_variants_are_compared_input_by_input(grid: Grid) -> None:
    compared = grid.diff("old", "new")
    assert (compared.better, compared.worse, compared.same) == (("b",), ("a",), 1)
    assert str(compared).splitlines() == [
        "new against old, 3 inputs:",
        "  better on 1 (b)",
        "  worse on 1 (a)",
        "  same on 1",
        "  passed +0%",
        "  p = 1 (sign test over the inputs that differ)",
    ]
    grid.add(0, 0, replace(grid[0, 0][0], score=0.5))
    assert "  score +" in str(grid.diff("old", "new"))
    scored = fill(old=[0.2] * 8, new=[0.9] * 8).diff("old", "new")
    assert (len(scored.better), scored.worse, scored.same) == (8, (), 0)
    assert str(scored).startswith("new against old, by score, 8 inputs:\n  better on 8 (")
    assert scored.chance == pytest.approx(0.0078, rel=0.01)
    many = fill(old=["no"] * 12, new=["right"] * 12)
    assert "passed +100%" in str(many.diff("old", "new"))
    assert "  p = 0.00049 (" in str(many.diff("old", "new"))


def test_a_frame_has_a_row_per_run_and_keeps_columns_that_have_its_own_names() -> None:
    rows = [{"text": word, "q": 1} for word in "ab"]
    frame = fill(rows, 2, old=["right", "no"] * 2, new=["no"] * 4).to_frame()
    own = "agent model params repeat status text passed score reason tokens cost seconds"
    assert list(frame.columns) == ["input_text", "q", *own.split()]
    assert list(frame["input_text"]) == ["a"] * 4 + ["b"] * 4
    assert list(frame["text"]) == ["right", "right", *["no"] * 6]
    assert list(frame.index[:4]) == ["old", "old", "new", "new"]
    assert frame["passed"].sum() == 2


def test_the_page_says_what_passed_and_opens_each_run(grid: Grid) -> None:
    page = show_grid(grid)
    assert page["text/plain"].splitlines() == [
        "not sure that old is better than new: better on 1 of 3 inputs, worse on 1 (p = 1); "
        "too few inputs, at least 6 are needed",
        "3 inputs × 2 variants × 2 repeats",
        "   variant  passed  95% interval  varies  tokens",
        f"0  old      3 of 6  13% to 87%    33%     {grid.summary[0].tokens}",
        f"1  new      3 of 6  13% to 87%    33%     {grid.summary[1].tokens}",
        "",
        "   0    1",
        "a  ✓    1/2",
        "b  1/2  ✓",
        "c  ✗    ✗",
    ]
    assert page["text/html"].count("<details") >= 3 + 12
    assert len(grid.failures) == 6
    assert show_grid(grid) == page
    assert str(grid) == page["text/plain"]
    running = show_grid(grid, note="3 of 12 runs")  # says nothing of which is better
    assert running["text/plain"].startswith("3 of 12 runs\n   variant")
    assert "better" not in running["text/html"]


def test_incomplete_runs_have_a_column_and_the_first_failure_its_place() -> None:
    @axe_nb.script("writer")
    def writer(request: Request) -> str:
        if "two" in request.last:
            raise axe_nb.ProviderError("overloaded", "too many people ask")
        return "done"

    agent = Agent("writer", "script/writer")
    grid = axe_nb.grid(agent, "Write {{ input }}", inputs=["one", "two"], display=False)
    lines = str(grid).splitlines()
    assert lines[1].split()[3:5] == ["interval", "failed"]
    first = "two × writer: overloaded: too many people ask"
    assert lines[-1] == f"1 run did not complete; the first: {first}"


def test_scores_have_a_column_if_they_say_more_than_what_passed() -> None:
    grid = fill(["a", "b"], one=["right", "right"])
    assert "score" not in str(grid)
    for row, score in enumerate((0.9, 0.25)):
        grid.add(row, 0, replace(grid[row, 0][0], score=score))
    assert str(grid).splitlines()[-2:] == ["a  0.9", "b  0.25"]
    assert ">0.25</td>" in show_grid(grid)["text/html"]
    assert grid.summary[0].score == 0.575


def test_a_page_of_hostile_runs_is_inert_and_bounded() -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202e" + "x" * 50_000
    grid = fill([f"{n}{evil[:70]}" for n in range(30)], one=[evil] * 30)
    grid.note, grid.variants = evil[:70], (evil[:70],)
    page = show_grid(grid)
    assert len(page["text/html"]) < 300_000
    assert not re.search(r"<(script|img)", page["text/html"])
    for form in page.values():
        assert not set("\x1b\u202e") & set(form)
    assert "g[29, 0][0].result</code>" in page["text/html"]


def test_a_figure_is_drawn_of_shares_or_of_scores_if_every_run_passed(grid: Grid) -> None:
    quality, squares = grid.plot().axes[:2]
    assert quality.get_xlabel() == "tokens per run"
    assert quality.get_ylabel() == "share passed, with 95% interval"
    assert [text.get_text() for text in squares.get_xticklabels()] == ["old", "new"]
    assert squares.images[0].get_array().tolist() == [[1.0, 0.5], [0.5, 1.0], [0.0, 0.0]]
    scored = fill(["$x_$"], one=["right"], two=["right"])
    scored.variants = ("$\\bad{$", "_hidden")
    for column, score in enumerate((0.9, 0.25)):
        scored.add(0, column, replace(scored[0, column][0], score=score))
    figure = scored.plot()
    assert figure.axes[0].get_ylabel() == "mean score"
    assert figure.axes[1].images[0].get_array().tolist() == [[0.9, 0.25]]
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(scored.variants)
    assert figure._repr_png_()[:4] == b"\x89PNG"


def test_a_saved_grid_is_the_same(grid: Grid, tmp_path: Path) -> None:
    grid.note = "interrupted"
    grid.save(tmp_path / "g.jsonl")
    assert (tmp_path / "g.jsonl").read_text().startswith("axe_nb grid 3.0\n{")
    newer = (tmp_path / "g.jsonl").read_text().replace("grid 3.0", "grid 3.7", 1)
    (tmp_path / "g.jsonl").write_text(newer.replace('"label"', '"new": 1, "label"'))
    loaded = axe_nb.load(tmp_path / "g.jsonl")
    assert show_grid(loaded) == show_grid(grid)
    assert loaded.runs == grid.runs
    assert loaded.to_frame().drop(columns="seconds").equals(grid.to_frame().drop(columns="seconds"))
    assert oct((tmp_path / "g.jsonl").stat().st_mode)[-3:] == "600"


PLAN = '{"inputs": [{}], "variants": [], "repeats": 1, "note": ""}'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[]", "line 2 is not part of a grid"),
        (f'{PLAN}\n{{"at": [0, 0, 1]}}', "line 3"),
        ("[" * 100_000, "line 2 is not part of a grid"),
        (PLAN.replace('"repeats": 1', '"repeats": 1e400'), "line 2"),
        (PLAN.replace("[{}]", "[]"), "line 2"),
        (PLAN.replace('"variants": []', '"variants": ["x"]'), "line 2"),
    ],
)
def test_a_file_that_is_no_grid_is_told(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "g.jsonl").write_text(f"axe_nb grid 3.0\n{line}\n")
    with pytest.raises(ConfigError, match=told):
        axe_nb.load(tmp_path / "g.jsonl")


def test_secrets_are_not_saved_or_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret-12345")
    grid = fill(["sk-very-secret-12345"], one=["sk-very-secret-12345"])
    grid.save(tmp_path / "g.jsonl")
    assert "sk-very-secret" not in (tmp_path / "g.jsonl").read_text()
    assert "sk-very-secret" not in str(show_grid(grid))


def test_a_page_shows_whole_inputs_and_folds_those_on_which_the_variants_differ() -> None:
    long = "Berne, and what may be seen there on a Sunday in May, " * 3 + "in detail"
    axe_nb.script("half")(lambda request: request.messages[-1].content)
    grid = axe_nb.grid(
        [axe_nb.Agent(name, "script/half") for name in ("one", "two")], "{{ input }}",
        inputs=[long, "Rome"], display=False,
        score=lambda result, row: result.agent == "one" or row["input"] == "Rome",
    )  # fmt: skip
    html = show_grid(grid)["text/html"]
    chip, rest = html.split("<summary>only where they differ: 1 of 2 inputs</summary>")
    differ, whole = rest.split("</table></div></details>")
    assert ">Rome</summary>" not in chip + differ
    assert differ.count(f">{long}</summary>") == whole.count(f">{long}</summary>") == 1
    assert whole.index(long) < whole.index(">Rome</summary>")
    assert "text-overflow:ellipsis" in whole, "cut to the width there is"
    assert [whole.count(tag) for tag in ("<th ", "<tr>")] == [3, 3]


def test_the_fold_of_inputs_that_differ_repeats_no_large_answers() -> None:
    grid = fill([f"q{n}" for n in range(202)], one=["right"] * 202, two=["right", "wrong"] * 101)
    html = show_grid(grid)["text/html"]
    differ = html.split("<summary>only where they differ: 100 of 200 inputs")[1]
    assert "<details" not in differ.partition("</table>")[0]
    assert "<details" in differ.partition("</table>")[2]
    assert len(html) < 400_000
    assert "… 2 more inputs: .to_frame() has all" in html
