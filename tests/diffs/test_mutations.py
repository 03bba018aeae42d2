"""Each of many mutations of a large tree is told once, at its place, and nothing else."""

from __future__ import annotations

import pytest

from axe_nb import RunResult
from tests.diffs.trees import CHILDREN, MUTATIONS, TURNS, Mutator, make_tree, renumber

pytestmark = pytest.mark.req("E-9")

KINDS = tuple(MUTATIONS)


@pytest.fixture(scope="module")
def tree() -> RunResult:
    return make_tree()


def test_the_same_tree_with_other_ids_of_calls_does_not_differ(tree: RunResult) -> None:
    assert (len(tree.log), len(tree.children), len(list(tree.walk()))) == (TURNS, CHILDREN, 11)
    diff = tree.diff(renumber(tree, ids="other"))
    assert (diff.changes, diff.first, diff.same_path) == ((), None, True)


@pytest.mark.parametrize("seed", range(60))
def test_one_mutation_is_one_change_of_its_kind_at_its_place(tree: RunResult, seed: int) -> None:
    mutation = Mutator(tree, seed).mutate(KINDS[seed % len(KINDS)])
    kind, place, other = mutation.change
    for a, b, wanted in (
        (tree, mutation.tree, (kind, place, other)),
        (mutation.tree, tree, (kind, other, place)),
    ):
        diff = a.diff(b)
        assert [(c.kind, c.place, c.other) for c in diff.changes] == [wanted]
        assert diff.first == (wanted[1] or wanted[2])
