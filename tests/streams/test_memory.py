"""Goal: a node's process takes no memory for what it does not use."""

from __future__ import annotations

from pathlib import Path

from tests.edge.aboard import ship


def test_a_ships_process_never_loads_pandas(tmp_path: Path) -> None:
    """Arrow would, with the first array it makes, though nothing of it is used."""
    with ship(tmp_path) as node:
        node.start()
        node.wait_ready()
        loaded = Path(f"/proc/{node.pid}/maps").read_text()
    assert "libarrow" in loaded
    assert "/pandas/" not in loaded
