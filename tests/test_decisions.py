"""Every rule that the code cites can be looked up on the page of decisions."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
CITED = re.compile(r"\b([ABDOPX]-(?:[A-Z]?\d+))")
PAGE = (ROOT / "docs" / "decisions.md").read_text("utf-8")


def test_every_cited_rule_is_on_the_page_of_decisions() -> None:
    rows = set(CITED.findall(PAGE))
    cited = {
        (rule, file.name)
        for file in (ROOT / "axe_nb").rglob("*.py")
        for rule in CITED.findall(file.read_text("utf-8"))
    }
    assert {name for name in cited if name[0] not in rows} == set()


def test_no_docstring_cites_a_page_that_the_project_does_not_have() -> None:
    pages = re.compile(r"\b(seed \d|issue \d|second form|goals\.md|product\.md|[a-z-]+-facts\.md)")
    cited = {
        (found[0], file.relative_to(ROOT).as_posix())
        for file in (ROOT / "axe_nb").rglob("*.py")
        for found in pages.finditer(file.read_text("utf-8"))
    }
    assert cited == set()
