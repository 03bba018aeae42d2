"""Every requirement has a test that names it, or a reason why not."""

from pathlib import Path

import pytest

from tests.requirements import Coverage, coverage, marks

FAMILIES = "APBXODE"
"""First letters of the families that must be covered whole."""


@pytest.fixture(scope="module")
def now() -> Coverage:
    return coverage()


def test_every_mark_names_a_row_of_the_register(now: Coverage) -> None:
    assert now.mistakes == ()


def test_every_row_has_a_test_or_an_exemption(now: Coverage) -> None:
    assert now.missing(FAMILIES) == []


def test_an_exemption_goes_when_a_test_names_the_row(now: Coverage) -> None:
    assert {row: now.named[row] for row in now.excused if row in now.named} == {}


def test_marks_are_found_on_modules_classes_functions_and_parameters() -> None:
    source = """
pytestmark = pytest.mark.req("A-1.1")
@pytest.mark.req("A-1.2", "A-1.3")
class TestIt:
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.req("A-1.4"))])
    def test_it(self, x): ...
"""
    assert sorted(marks(source)) == [(2, "A-1.1"), (3, "A-1.2"), (3, "A-1.3"), (5, "A-1.4")]


def test_a_misspelt_id_is_reported_with_its_place_and_the_nearest_rows(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_x.py").write_text('import pytest\npytestmark = pytest.mark.req("A-7.3-16")\n')
    [mistake] = coverage(tests).mistakes
    assert mistake.startswith("tests/test_x.py:2: A-7.3-16 is no row; near: A-7.3-")
