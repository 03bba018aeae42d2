"""Writes the tables and the plot of comparison.md from what was measured.

`python -m tests.benchmarks --peers` measures, keeps what it found in `comparison.json`, and calls
this. `python docs/make_comparison.py` writes both again from the file, which also has each round;
a test fails if they do not belong together.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("comparison.md")
FEATURES = FILE.with_suffix(".toml")
FOUND = FILE.with_suffix(".json")
PLOT = FILE.parent / "pictures" / "comparison.svg"
BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

OURS = "axe_nb"
TRIED, READ, FAILED, NONE = "●", "○", "✗", "·"
QUIET = 0.5
"""Load average below which a machine did nothing else."""

Found = dict[str, Any]


class Column(NamedTuple):
    """A column of a table: a figure of the samples of a row."""

    title: str
    row: str
    figure: str
    scale: float
    """The unit of the column, as a multiple of that of the samples."""
    unit: str
    what: str
    """The figure in a sentence."""

    def values(self, found: Found, name: str) -> list[float]:
        samples = found["rows"].get(self.row, {}).get(name, [])
        return [sample[self.figure] * self.scale for sample in samples if self.figure in sample]


def ms(title: str, row: str, figure: str, what: str) -> Column:
    return Column(title, row, figure, 1e3, "ms", what)


CHAIN = 50
TABLES: dict[str, tuple[Column, ...]] = {
    "start": (
        ms("import, CPU ms", "first", "import_cpu", "CPU of the import"),
        Column("modules", "first", "import_modules", 1, "", "modules that the import loads"),
        ms("first answer, CPU ms", "first", "cpu", "CPU to the first answer"),
        ms("first answer, ms", "first", "seconds", "time to the first answer"),
        Column("memory, MB", "first", "grown", 1e-6, "MB", "memory at the first answer"),
    ),
    "turn": (
        Column("turn, CPU ms", "chain", "cpu", 1e3 / CHAIN, "ms", "CPU of a turn"),
        Column("turn, ms", "chain", "seconds", 1e3 / CHAIN, "ms", "time of a turn"),
        ms("after 10 exchanges, CPU ms", "go_on_10", "cpu", "CPU after 10 exchanges"),
        ms("after 1000, CPU ms", "go_on_1000", "cpu", "CPU after 1000 exchanges"),
    ),
    "fan_out": (
        ms("10, ms", "fan_out_10", "seconds", "time of a fan-out of 10"),
        ms("100, ms", "fan_out_100", "seconds", "time of a fan-out of 100"),
        ms("100, CPU ms", "fan_out_100", "cpu", "CPU of a fan-out of 100"),
        Column("1000 cold, CPU s", "cold", "cpu", 1, "s", "CPU of a cold fan-out of 1000"),
        Column("1000 cold, s", "cold", "seconds", 1, "s", "time of a cold fan-out of 1000"),
        Column("1000 cold, MB", "cold", "grown", 1e-6, "MB", "memory of a cold fan-out of 1000"),
    ),
    "many": (
        ms("time, ms", "many", "seconds", "time of many prompts"),
        ms("CPU, ms", "many", "cpu", "CPU of many prompts"),
    ),
}  # fmt: skip
PLOTTED = (
    ("Import: CPU, ms", TABLES["start"][0]),
    ("First answer of a new process: CPU, ms", TABLES["start"][2]),
    ("One turn with a tool call: CPU, ms", TABLES["turn"][0]),
    ("A turn after 1000 exchanges: CPU, ms", TABLES["turn"][3]),
    ("Fan-out of 100: time, ms", TABLES["fan_out"][1]),
    ("Fan-out of 1000, cold: memory, MB", TABLES["fan_out"][5]),
)
REFERENCE = "httpx"
"""No framework: the requests by a plain HTTP client."""


def number(value: float) -> str:
    """Three digits at most, without an exponent."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, first and third quartile."""
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return median(values), low, high


def cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    middle, low, high = map(number, spread(values))
    return middle if low == high else f"{middle} ({low}–{high})"


def table(found: Found, columns: Sequence[Column]) -> Iterator[str]:
    """The lines of a table; the least of the first column is first."""
    yield f"| | {' | '.join(column.title for column in columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    rows = []
    for name in found["contenders"]:
        values = [column.values(found, name) for column in columns]
        if any(values):
            rows.append((median(values[0] or [math.inf]), name, values))
    for _, name, values in sorted(rows):
        shown = f"**{name}**" if name == OURS else name
        yield f"| {shown} | {' | '.join(map(cell, values))} |"


def table_of_features(found: Found, group: str) -> Iterator[str]:
    """What each can do: tried, read, tried in vain, or not found."""
    names = [name for name in found["contenders"] if name != REFERENCE]
    yield f"| | {' | '.join(names)} |"
    yield "|---" + "|:-:" * len(names) + "|"
    for feature in tomllib.loads(FEATURES.read_text("utf-8"))["feature"]:
        if feature["group"] == group:
            marks = (mark(found, feature, name) for name in names)
            yield f"| {feature['what']} | {' | '.join(marks)} |"


def mark(found: Found, feature: dict[str, Any], name: str) -> str:
    if name == OURS:
        return TRIED if feature.get("axe_nb") else NONE
    problem = found["claims"].get(name, {}).get(feature.get("claim"))
    if problem == "":
        return TRIED
    if name in feature.get("read", ()):
        return READ
    return NONE if problem is None else FAILED


def table_of_versions(found: Found) -> Iterator[str]:
    yield "| | version | packages installed with it | size, MB |"
    yield "|---|---|---|---|"
    for name, one in sorted(
        found["contenders"].items(), key=lambda item: item[1].get("packages", 0)
    ):
        if problem := one.get("problem"):
            yield f"| {name} | not installed: {problem} | | |"
        else:
            shown = f"**{name}**" if name == OURS else name
            yield f"| {shown} | {one['version']} | {one['packages']} | {number(one['megabytes'])} |"


def list_better(found: Found) -> Iterator[str]:
    """Where another library was better than axe_nb in this run, and by how much."""
    for columns in TABLES.values():
        for column in columns:
            ours = column.values(found, OURS)
            others = {
                name: median(values) for name in found["contenders"]
                if name != OURS and (values := column.values(found, name))
            }  # fmt: skip
            better = {n: v for n, v in others.items() if ours and v < median(ours)}
            if better:
                named = ", ".join(
                    f"{name} {number(value)}" for name, value in sorted(better.items())
                )
                unit = f" {column.unit}" if column.unit else ""
                yield f"- {column.what}: {named}; axe_nb {number(median(ours))}{unit}"


def summary(found: Found) -> Iterator[str]:
    machine = found["machine"]
    rounds = {len(v) for samples in found["rows"].values() for v in samples.values()}
    once = "; a round of more than 5 seconds is not repeated" if min(rounds) == 1 else ""
    yield (
        f"Measured on {found['date']} by `{found['command']}` in {found['seconds']} seconds "
        f"beside the installation: {machine['cpus']} CPUs, {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}. Each cell is the median of "
        f"{min(rounds)} to {max(rounds)} rounds, with the first and third quartile in brackets"
        f"{once}."
    )
    before, after = machine["load_before"], machine["load_after"]
    if before > QUIET:
        yield (
            f"The machine was shared with other work (load average {before} before, {after} "
            "after): times are longer and vary more than on a quiet one, so compare CPU first."
        )
    else:
        yield f"The machine did nothing else (load average {before} before, {after} after)."


def better_or_none(found: Found) -> Iterator[str]:
    lines = list(list_better(found))
    yield from lines or ["In none of the columns above."]


def page(found: Found, text: str) -> str:
    """The text of the page with the tables of what was found."""
    made: dict[str, Callable[[Found], Iterator[str]]] = {
        "summary": summary, "versions": table_of_versions, "better": better_or_none,
    }  # fmt: skip
    for group in ("notebook", "agents", "tests"):
        made[group] = lambda found, group=group: table_of_features(found, group)
    made |= {name: lambda found, c=columns: table(found, c) for name, columns in TABLES.items()}

    def fill(match: re.Match[str]) -> str:
        lines = "\n".join(made[match[2]](found))
        return f"{match[1]}\n{lines}\n\n{match[3]}"

    return BLOCK.sub(fill, text)


def fingerprint(found: Found) -> str:
    """What the plot names, so that one of other figures is noticed."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def draw(found: Found, path: Path) -> None:
    """The plot, as an SVG file; needs matplotlib, which the dependency group `test` has."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {
        "svg.fonttype": "none", "svg.hashsalt": OURS, "font.family": "sans-serif", "font.size": 9,
    }  # fmt: skip
    with mpl.rc_context(style):
        figure = Figure(figsize=(9, 8.4), layout="constrained")
        for axes, (title, column) in zip(figure.subplots(3, 2).flat, PLOTTED, strict=True):
            draw_points(axes, title, column, found)
        figure.savefig(path, metadata={"Date": None, "Description": fingerprint(found)})


def draw_points(axes: Any, title: str, column: Column, found: Found) -> None:
    """A point for each contender, least on top, with its quartiles."""
    taken = {name: column.values(found, name) for name in found["contenders"]}
    spreads = {name: spread(values) for name, values in taken.items() if values}
    names = sorted(spreads, key=lambda name: -spreads[name][0])
    colours = {OURS: "#0969da", REFERENCE: "#bf8700"}
    for place, name in enumerate(names):
        middle, low, high = spreads[name]
        axes.plot([low, high], [place, place], color="#24292f", linewidth=1.5)
        axes.plot(middle, place, "o", color=colours.get(name, "#57606a"), markersize=7)
        axes.text(high * 1.15, place, number(middle), va="center")
    axes.set_yticks(range(len(names)), names)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.grid(axis="x", color="#d0d7de", linewidth=0.6)
    least, most = min(s[1] for s in spreads.values()), max(s[2] for s in spreads.values())
    axes.set_xlim(least / 2, most * 3)
    axes.set_title(title, loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)


def write(found: Found) -> list[Path]:
    """Keeps what was found, and writes the page and the plot; returns the files."""
    FOUND.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    FILE.write_text(page(found, FILE.read_text("utf-8")), "utf-8")
    draw(found, PLOT)
    return [FOUND, FILE, PLOT]


if __name__ == "__main__":
    write(json.loads(FOUND.read_text("utf-8")))
