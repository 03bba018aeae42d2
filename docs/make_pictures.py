"""Makes the pictures of the gallery: `python docs/make_pictures.py [NAME…]`.

Each is taken of a run in JupyterLab, with the agents of the course. With `--states FOLDER
[STATE…]` it takes screenshots of the live tree instead: in each of its states, in JupyterLab's
light and dark theme, 1280 and 640 pixels wide, for somebody to look at. Nothing is compared.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import nbformat
import numpy as np
from nbconvert.exporters import HTMLExporter
from PIL import Image
from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # `python docs/make_pictures.py` puts the folder `docs` there

from tests.browser.lab import CLOSE_ALL, LIGHT, SIZE, Lab, server, started  # noqa: E402
from tests.browser.live_tree import BACKGROUND, BUDGET, RESEARCH, RUNS, start  # noqa: E402
from tests.conftest import CHROMIUM  # noqa: E402
from tests.views.runs import code  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
WIDTH, SCALE, COLOURS = 1040, 2, 256
DARK = "JupyterLab Dark"
BUTTON = ".axe-nb-question:visible button:enabled"

# The gallery

SURVEY = "%%axe lead -o survey\nSurvey this place for somebody who is new to it."

SUNDAY = "%%axe skipper -o sunday\nWhen do we sail?"

MONDAY = "%%axe --from sunday@0.1/1 -o monday\nHigh water on Monday?"

STORES = "%%axe storekeeper\nWhat runs out first?"

WEATHER = "%%axe weather\nHow is the swell?"

PANTRY = "%%axe cook -o dinner\nWhat do you cook? I would like something with flour, rice or eggs."

CLERK = """
@axe_nb.script("clerk")
def clerk(request):
    if request.results:
        return "The handbook says Wednesdays now."
    words = {"old_text": "on Tuesdays", "new_text": "on Wednesdays"}
    return axe_nb.call("edit_file", path="data/handbook.md", **words)

_ = axe_nb.define(axe_nb.Agent("clerk", "script/clerk", tools=("edit_file",), mode="ask"))"""

CRITIC = """
import asyncio

@axe_nb.script("critic")
async def critic(request):
    await asyncio.sleep(0.4)
    return "friendly"

_ = axe_nb.define(axe_nb.Agent("critic", "script/critic"))
reviews = [f"Review number {n}" for n in range(120)]"""

TIDE = """
import math
from matplotlib.figure import Figure

@axe_nb.script("analyst")
def analyst(request):
    return "High water is at about 4:00 and 16:00, low water six hours later."

_ = axe_nb.define(axe_nb.Agent("analyst", "script/analyst"))
tide = Figure(figsize=(4, 1.6), layout="tight")
axes = tide.subplots()
axes.plot([1.6 + 1.4 * math.cos((n / 4 - 4) * math.pi / 6) for n in range(97)])
axes.set(xticks=range(0, 97, 16), xticklabels=range(0, 25, 4), xlabel="hour", ylabel="metres")"""

CARGO = 'cargo = [{"what": what, "place": place} for what, place in CARGO.items()]'

GRID = """\
prompts = {
    "short": "Where does {{ what }} go?",
    "long": "Think of the weight. Where does {{ what }} go?",
}

def right(result, row):
    return row["place"] in result.text

g = axe_nb.grid("porter", prompts, inputs=cargo, score=right)"""

DELIVERY = """\
@dataclass
class Delivery:
    what: str
    kilos: int
    fragile: bool = False"""

NOTE = "%%axe harbourmaster --output Delivery -o note\n2 drums of paraffin, 20 kilos each."

Act = Callable[[Lab], None]
"""What a visitor does, or waits for, before the picture is taken."""


def see(selector: str) -> Act:
    return lambda lab: lab.page.locator(selector).first.wait_for()


def click(selector: str) -> Act:
    return lambda lab: lab.page.locator(selector).first.click()


def retry(lab: Lab) -> None:
    """The outliner has answered, and the boatman tries again."""
    lab.page.locator("details.axe-nb-good").first.wait_for(state="attached")
    see("summary >> text=tries again")(lab)


def go_to_tool(lab: Lab) -> None:
    """Says "go" until a tool is about to be called by the pantry."""
    while "stock" not in lab.page.locator(".axe-nb-question:visible").last.inner_text():
        asked = lab.page.locator(".jp-Stdin-prompt").count()
        click(BUTTON)(lab)
        lab.page.wait_for_function(
            "n => document.querySelectorAll('.jp-Stdin-prompt').length !== n", arg=asked
        )
        see(BUTTON)(lab)


@dataclass(frozen=True)
class Picture:
    """A picture of the last cells of a notebook."""

    cells: tuple[str, ...]
    setup: str = ""
    """Run after `course.ipy`, in a cell that is not shown."""
    shown: int = 1
    """How many of the last cells are shown."""
    until: str = ""
    """The element that is shown last; otherwise the last cell is shown to its end."""
    acts: tuple[Act, ...] = ()
    ends: bool = True
    """Whether the last cell is waited for before the acts."""
    theme: str = LIGHT


def unfold(name: str) -> Act:
    row = f".jp-OutputArea summary:has(b:text-is('{name}')) >> visible=true"
    return lambda lab: lab.page.locator(row).evaluate("e => { e.parentElement.open = true }")


def reopen(lab: Lab) -> None:
    """Closes the notebook, and opens it as it was saved."""
    lab.save()
    lab.page.evaluate(CLOSE_ALL)
    lab.show("test.ipynb", kernel=False)


GALLERY = {
    "live.png": Picture((SURVEY,), "PACE = 3", acts=(retry,), ends=False),
    "tree-light.png": Picture((SURVEY,), acts=(reopen, unfold("boatman"))),
    "tree-dark.png": Picture((SURVEY,), acts=(reopen, unfold("boatman")), theme=DARK),
    "failure.png": Picture((WEATHER,)),
    "question.png": Picture(
        ("%%axe clerk\nThe boat comes on Wednesdays now. Correct the handbook.",), CLERK,
        until=".axe-nb-tree", acts=(see(BUTTON),), ends=False,
    ),
    "step.png": Picture(
        (PANTRY.replace(" -o dinner", " --step"),),
        until=".axe-nb-tree", acts=(see(BUTTON), go_to_tool), ends=False,
    ),
    "fork.png": Picture((SUNDAY, MONDAY)),
    "diff.png": Picture((SUNDAY, MONDAY, "%axe diff sunday monday")),
    "grid.png": Picture((GRID,), CARGO),
    "plot.png": Picture((GRID, "g.plot()"), CARGO),
    "map.png": Picture(
        ("answers = [run.text for run in axe_nb.map('critic', reviews)]",), CRITIC,
        acts=(see("text=/[3-9][0-9] of 120/"),), ends=False,
    ),
    "history.png": Picture(
        (SUNDAY, STORES, WEATHER, GRID, "%axe history"),
        f'import os\nos.environ["XDG_STATE_HOME"] = os.path.abspath("state")\n{CARGO}',
    ),
    "time.png": Picture((SURVEY, "%axe time survey")),
    "request.png": Picture(
        (PANTRY, "%axe request dinner@0.1/2"), acts=(click("summary >> text=/^body/"),)
    ),
    "output.png": Picture((DELIVERY, NOTE, "note.data"), "from dataclasses import dataclass", 3),
    "prompt.png": Picture(
        ("%%axe analyst\nWhen is high water, according to this curve? {{ tide }}",), TIDE,
        acts=(unfold("analyst"),),
    ),
}  # fmt: skip
"""File → how it is made."""

FILMS = {"live.webp": (SURVEY,), "replay.webp": (SURVEY, "%axe replay survey --speed 2")}
"""File → the cells, the last of which is shown."""

BOX = """
([shown, until]) => {
  const cells = [...document.querySelectorAll(".jp-Notebook .jp-CodeCell")].slice(-shown - 1, -1);
  const ends = until ? document.querySelector(until) : cells.at(-1);
  const [first, last] = [cells[0], ends].map((each) => each.getBoundingClientRect());
  return {x: first.x, y: first.y, width: first.width, height: last.bottom - first.y};
}
"""
"""The last cells without the very last one, which is empty."""


def begin(lab: Lab, cells: tuple[str, ...], setup: str = "", theme: str = LIGHT) -> None:
    """Opens a notebook with these cells and an empty one, and runs all before the last of them."""
    if lab.is_loaded:
        lab.tidy()
    shutil.copytree(ROOT / "notebooks", lab.server.folder, dirs_exist_ok=True)
    lab.open(code(f"%load_ext axe_nb\n%run course.ipy\n{setup}", *cells, ""))
    lab.page.set_viewport_size({"width": WIDTH, "height": 1600})
    if theme != LIGHT:
        lab.theme(theme)
    lab.page.evaluate("window.jupyterapp.shell.collapseLeft()")
    for number in range(len(cells)):
        lab.command("notebook:run-cell-and-select-next")
        wait(lab, number)


def wait(lab: Lab, number: int) -> None:
    """Waits until the cell has ended."""
    prompt = lab.page.locator(".jp-CodeCell .jp-InputPrompt").nth(number)
    prompt.locator("text=/\\d/").wait_for()


def take_picture(lab: Lab, picture: Picture) -> Image.Image:
    begin(lab, picture.cells, picture.setup, picture.theme)
    lab.command("notebook:run-cell-and-select-next")
    if picture.ends:
        wait(lab, len(picture.cells))
    for act in picture.acts:
        act(lab)
    lab.page.mouse.move(0, 0)
    lab.page.locator(".jp-CodeCell .cm-content").last.focus()  # no other cell is the active one
    if picture.ends:
        lab.page.wait_for_timeout(500)  # the page settles
    return shoot(lab, picture.shown, picture.until)


def shoot(lab: Lab, *what: object) -> Image.Image:
    """A screenshot of the last cells; faster than Playwright's, which waits for the page."""
    clip = {**lab.page.evaluate(BOX, what), "scale": SCALE}
    sent = {"format": "png", "optimizeForSpeed": True, "clip": clip}
    answer = lab.context.new_cdp_session(lab.page).send("Page.captureScreenshot", sent)
    return Image.open(BytesIO(base64.b64decode(answer["data"]))).convert("RGB")


def take_film(lab: Lab, cells: tuple[str, ...]) -> list[tuple[Image.Image, float]]:
    """The last cell from its start to its end, and for how many seconds it looked so."""
    begin(lab, cells)
    frames, ended_at = [(shoot(lab, 1, ""), time.monotonic())], 0.0
    lab.command("notebook:run-cell-and-select-next")
    while not ended_at or time.monotonic() - ended_at < 1:
        frames.append((shoot(lab, 1, ""), time.monotonic()))
        prompt = lab.page.locator(".jp-CodeCell .jp-InputPrompt").nth(len(cells))
        if not ended_at and re.search(r"\d", prompt.inner_text()):
            ended_at = time.monotonic()
    ends = [at for _, at in frames[1:]] + [frames[-1][1] + 3]
    return [(image, end - at) for (image, at), end in zip(frames, ends, strict=True)]


def save_film(film: list[tuple[Image.Image, float]], path: Path) -> None:
    images: list[Image.Image] = []
    durations: list[int] = []
    for image, seconds in film:
        frame = Image.new("RGB", (image.width, max(image.height for image, _ in film)), "white")
        frame.paste(image)
        if images and frame == images[-1]:
            durations[-1] += round(1000 * seconds)
        else:
            images.append(frame)
            durations.append(round(1000 * seconds))
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=durations, loop=0,
        lossless=True, minimize_size=True, method=4, quality=100,
    )  # fmt: skip


def save_picture(image: Image.Image, path: Path) -> None:
    """Saves the picture with the colours that are seen most; others become the nearest of them."""
    codes = np.asarray(image) @ np.array([1 << 16, 1 << 8, 1])
    found, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    weights = counts * (1 + np.ptp(colours, axis=1))  # rare greys are close to others
    palette = colours[np.argsort(-weights)[:COLOURS]]
    nearest = ((colours[:, None] - palette) ** 2).sum(axis=2).argmin(axis=1)
    reduced = Image.fromarray(nearest[places].reshape(codes.shape).astype("uint8"))
    reduced.putpalette(palette.astype("uint8").tobytes())
    reduced.save(path, optimize=True)


def make_gallery(*names: str) -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        server(Path(home), AXE_NB_RETRIES="2") as jupyter,
        started(str(CHROMIUM)) as browser,
    ):
        visitor = browser.new_context(viewport=SIZE)
        lab = Lab(jupyter, visitor)
        lab.page.set_default_timeout(30_000)
        for name in names or (*GALLERY, *FILMS):
            path = PICTURES / name
            if name in FILMS:
                save_film(take_film(lab, FILMS[name]), path)
            else:
                save_picture(take_picture(lab, GALLERY[name]), path)
            print(f"{path.stat().st_size:8,}  {path}", flush=True)
        visitor.close()


# Screenshots of states

WIDTHS, HEIGHT = (1280, 640), 900


def shows(source: str, selector: str, *gates: str) -> Callable[[Lab], None]:
    """A state: a cell that went through these gates, once the page has such an element."""

    def show(lab: Lab) -> None:
        start(lab, source if "\n" in source else f"{RUNS}; r = axe_nb.run({source})")
        lab.gate(*gates)
        lab.page.wait_for_selector(selector, state="attached")

    return show


def show_crowd(count: int) -> Callable[[Lab], None]:
    return shows(f"crowd({count}), 'Check the documentation.'", ".axe-nb-row.axe-nb-bad")


def show_background(lab: Lab) -> None:
    lab.open(code(BACKGROUND, "%%axe lead --bg\nCheck."))
    lab.run_all()
    lab.page.wait_for_selector(".axe-nb-stop:visible")


def show_interrupt(lab: Lab) -> None:
    show_crowd(8)(lab)
    lab.command("notebook:interrupt-kernel")
    lab.ended("cancelled")


def show_reload(lab: Lab) -> None:
    """The page loaded anew while the run goes on."""
    show_crowd(8)(lab)
    lab.save()
    lab.is_loaded = False
    lab.show("test.ipynb", kernel=False)
    lab.page.wait_for_selector(".jp-OutputArea-output")


def show_reopened(lab: Lab) -> None:
    """A saved run, opened again without a kernel and without trust."""
    (lab.server.folder / "again.ipynb").write_text(save_run(lab), "utf-8")
    lab.is_loaded = False
    lab.show("again.ipynb", kernel=False)
    lab.unfold()


def show_html(lab: Lab) -> None:
    """The same as a page made by nbconvert."""
    notebook = nbformat.reads(save_run(lab), as_version=4)
    page = lab.server.folder / "run.html"
    page.write_text(HTMLExporter().from_notebook_node(notebook)[0], "utf-8")
    lab.page.goto(page.as_uri())
    lab.page.locator("details").first.evaluate("each => { each.open = true }")


def save_run(lab: Lab) -> str:
    """A notebook with a finished run of three agents, without what the browser trusts."""
    start(lab, RESEARCH)
    lab.gate("researcher", "counter", "critic")
    lab.ended()
    notebook = lab.save()
    notebook.metadata.pop("signature", None)
    notebook.cells[0].metadata.pop("trusted", None)
    notebook.cells[0].source += "\n"  # no output that this server has signed
    return json.dumps(notebook)


ENDED = ".jp-OutputArea summary >> text=completed >> visible=true"

STATES: dict[str, Callable[[Lab], None]] = {
    "eight": show_crowd(8),
    "forty": show_crowd(40),
    "question": shows("editor('Tuesday: calm, 3 visitors'), 'Go.'", BUTTON),
    "budget": shows(BUDGET, BUTTON),
    "background": show_background,
    "step": shows("research(), 'Check.', step=True", BUTTON),
    "stream": shows("writer(), 'Go.'", "text=The loader accepts", "text"),
    "failure": shows("research(gated=False, timeout=1), 'Check.'", ENDED),
    "interrupt": show_interrupt,
    "reload": show_reload,
    "reopened": show_reopened,
    "nbconvert": show_html,
}


def take(browser: Browser, folder: Path, state: str) -> None:
    """The state in both themes and widths, each a file `STATE-THEME-WIDTH.png`."""
    with tempfile.TemporaryDirectory() as home, server(Path(home)) as jupyter:
        visitor = browser.new_context(viewport=SIZE)
        lab = Lab(jupyter, visitor)
        STATES[state](lab)
        themes = [LIGHT]
        if lab.page.evaluate("() => !!window.jupyterapp"):
            lab.command("application:toggle-left-area")
            themes.append("JupyterLab Dark")
        for theme in themes:
            if themes[1:]:
                lab.theme(theme)
            for width in WIDTHS:
                lab.page.set_viewport_size({"width": width, "height": HEIGHT})
                lab.page.wait_for_timeout(500)  # the page settles
                name = f"{state}-{theme.split()[-1].lower()}-{width}.png"
                lab.page.screenshot(path=folder / name)
                print(folder / name, flush=True)
        visitor.close()


def take_states(folder: Path, *states: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with started(str(CHROMIUM)) as browser:
        for state in states or STATES:
            take(browser, folder, state)


if __name__ == "__main__":
    if CHROMIUM is None:
        sys.exit("there is no chromium (Debian: sudo apt-get install chromium)")
    match sys.argv[1:]:
        case ["--states", folder, *states] if set(states) <= STATES.keys():
            take_states(Path(folder), *states)
        case names if set(names) <= GALLERY.keys() | FILMS.keys():
            make_gallery(*names)
        case _:
            sys.exit(f"{__doc__}\n{' '.join([*GALLERY, *FILMS])}\n--states: {' '.join(STATES)}")
