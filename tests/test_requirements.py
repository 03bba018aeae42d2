"""Every requirement has a test that names it, or a reason why not."""

import pytest

from tests.requirements import Coverage, coverage

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
