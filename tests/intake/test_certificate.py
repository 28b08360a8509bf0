"""Goal: a node whose MQTT endpoint has a certificate that does not load says which files, and does not start; one in its place is shown
while the node runs, and it is told of before it expires.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from intake.settings import EndpointSettings
from landfall.transport import certificate_renewal
from landfall.transport.certificates import Described, describe
from streams.model.errors import Misuse
from tests.intake.stand import DEADLINE_S, eventually, stand
from tests.intake.test_endpoint import self_signed
from tests.support.refusals import refusal


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
    with refusal(Misuse, "certificate_not_loaded", certificate, key):
        async with stand(tmp_path, EndpointSettings(port=0, tls_certificate=certificate, tls_key=key)):
            raise AssertionError("it listens")


async def shown_at(port: int) -> str:
    """The certificate that a client is met with, as PEM."""
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=DEADLINE_S)


async def test_one_in_its_place_is_shown_while_the_node_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While only one of the two files is new, the old one is shown on. Of one that expires soon `exceptions` hear, once."""
    looked = list[bytes]()

    def noted(content: bytes) -> Described:
        looked.append(content)
        return describe(content)

    def logged() -> list[tuple[object, ...]]:
        """The door, and what does not load or which certificate it shows from now on."""
        own = [record for record in caplog.records if record.module == "certificate_renewal"]
        return [record.args for record in own if isinstance(record.args, tuple)]

    monkeypatch.setattr(certificate_renewal, "describe", noted)
    monkeypatch.setattr(certificate_renewal, "LOOK_EVERY_S", 0.01)
    caplog.set_level(logging.INFO, "landfall.node")
    door, (certificate, key) = "the MQTT endpoint", self_signed(tmp_path)
    before = certificate.read_text()
    async with stand(tmp_path, EndpointSettings(port=0, tls_certificate=certificate, tls_key=key)) as one:
        port = one.endpoint.port
        assert await shown_at(port) == before
        await eventually(lambda: len(one.reports) == 1)
        (tmp_path / "new").mkdir()
        new_certificate, new_key = self_signed(tmp_path / "new", days=2)
        after = new_certificate.read_text()
        new_certificate.replace(certificate)
        await eventually(lambda: [(name, getattr(problem, "code", "")) for name, problem in logged()] == [(door, "certificate_not_loaded")])
        assert await shown_at(port) == before
        new_key.replace(key)
        await eventually(lambda: logged()[1:] == [(door, certificate)])
        assert await shown_at(port) == after
        await eventually(lambda: looked.count(after.encode()) > 3)
    assert ["certificate" in report for report in one.reports] == [True, True], "of each once, however often it is looked at"
