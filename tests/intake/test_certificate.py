"""Goal: a node whose MQTT endpoint has a certificate that does not load says which files, and does not start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from intake.settings import EndpointSettings
from streams.errors import Misuse
from tests.intake.stand import stand
from tests.intake.test_endpoint import self_signed


def missing(folder: Path) -> tuple[Path, Path]:
    return self_signed(folder)[0], folder / "missing.pem"


def another_key(folder: Path) -> tuple[Path, Path]:
    other = folder / "other"
    other.mkdir()
    return self_signed(folder)[0], self_signed(other)[1]


def no_certificate(folder: Path) -> tuple[Path, Path]:
    _, key = self_signed(folder)
    return key, key


@pytest.mark.parametrize("files", [missing, another_key, no_certificate])
async def test_it_is_told_with_its_files(tmp_path: Path, files: Callable[[Path], tuple[Path, Path]]) -> None:
    certificate, key = files(tmp_path)
    with pytest.raises(Misuse, match="do not load") as raised:
        async with stand(tmp_path, EndpointSettings(port=0, tls_certificate=certificate, tls_key=key)):
            raise AssertionError("it listens")
    assert str(certificate) in str(raised.value)
    assert str(key) in str(raised.value)
