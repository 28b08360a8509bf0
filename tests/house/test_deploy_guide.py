"""Goal: every settings file of docs/guide/deploy.md is one that its process takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from landfall.process_table import settings_of

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "deploy.md").read_text()
FILE = re.compile(r"`/etc/landfall/(\w+)\.toml`[^\n]*:\n\n```toml\n(.*?)```", re.DOTALL)
FILES = FILE.findall(GUIDE)


def test_each_process_has_a_file() -> None:
    assert sorted(process for process, _ in FILES) == ["analytics", "api", "dashboards", "port", "port", "projector", "ship"]
    assert len(FILES) == GUIDE.count("```toml")


@pytest.mark.parametrize(("process", "text"), FILES, ids=[process for process, _ in FILES])
def test_a_file_is_taken(process: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"{process}.toml"
    path.write_text(text)
    path.chmod(0o600)
    settings_of(process, path)
