"""Goal: leaves that stand side by side lead to the root of their tree by one path, and by no other."""

from __future__ import annotations

import pytest

from streams.integrity.merkle_tree import Path, Tree, entry_bytes


@pytest.mark.parametrize("count", [*range(1, 18), 33])
def test_a_path_leads_from_each_slice_of_leaves_to_the_root(count: int) -> None:
    tree = Tree((f"box-{number}", entry_bytes(number, bytes([number]) * 32)) for number in range(count))
    for first in range(count):
        for end in range(first + 1, min(count, first + 3) + 1):
            path, leaves = tree.path(first, end), tree.leaves[first:end]
            assert path.root(*leaves) == tree.root()
            others = [
                Path(first + 1, count, path.siblings),
                Path(first, count + 1, path.siblings),
                Path(first, count, (*path.siblings, b"0" * 32)),
            ]
            others += [Path(first, count, path.siblings[:-1])] if path.siblings else []
            assert all(_root(other, first, end, tree) != tree.root() for other in others), (first, end)
            assert _root(path, first, end - 1, tree) != tree.root()


def _root(path: Path, first: int, end: int, tree: Tree) -> bytes | None:
    try:
        return path.root(*tree.leaves[first:end])
    except ValueError:
        return None
