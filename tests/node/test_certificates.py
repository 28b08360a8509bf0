"""Goal: nodes prove who they are by certificates, over real sockets; a wrong one is turned away in a sentence a person understands."""

from __future__ import annotations

import asyncio
import logging
import shutil
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from landfall.access.credentials import CredentialFile
from landfall.cli.main import main
from landfall.node.http import connection_guard
from landfall.node.node import Node
from landfall.node.peers import session_runner
from landfall.node.settings import NodeSettings, PeerAddress, TlsSettings
from landfall.transport import certificate_renewal
from landfall.transport.certificates import KeyAndCertificate, describe, make_authority, make_node
from landfall.transport.dialer import Dialler
from landfall.transport.tls import TlsFiles, trusting
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.errors import Misuse, NotAllowed
from streams.model.identifiers import Position
from streams.model.records import Record, to_batch
from tests.support.credentials import allow_peers
from tests.support.fleet import address, readings, settings, until
from tests.support.refusals import codes_of, link_codes, refusal

HELLO = bytes.fromhex("1603010200010001fc0303")
"""How a handshake begins; some 500 bytes more belong to its first message."""


def run(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority and its nodes' certificates, made as an operator makes them."""
    folder = tmp_path_factory.mktemp("made") / "certs"
    run("certs", "authority", str(folder))
    run("certs", "node", "tokyo", "hq", "ship-a", "--folder", str(folder), "--host", "127.0.0.1", "--host", "localhost")
    return folder


@pytest.fixture
def certs(tmp_path: Path, made_once: Path) -> Path:
    """The same certificates in a folder of this test's own."""
    return shutil.copytree(made_once, tmp_path / "certs")


def files(certs: Path, name: str) -> TlsFiles:
    return TlsFiles(certs / "authority.pem", certs / f"{name}.pem", certs / f"{name}.key")


def secured(name: str, folder: Path, certs: Path) -> NodeSettings:
    """Settings of a node that knows its peers by their certificates alone: none of them has a token."""
    plain = settings(name, folder)
    for peer in plain.known:
        CredentialFile(plain.folder).withdraw(f"node:{peer.node}")
    own = files(certs, name)
    return plain.model_copy(
        update={"tls": TlsSettings(authority=own.authority, certificate=own.certificate, key=own.key)},
    )


async def node_of(chosen: NodeSettings) -> Node:
    node = Node(chosen, WallClock())
    await node.start()
    return node


async def test_nodes_that_show_their_certificates_need_no_token(tmp_path: Path, certs: Path) -> None:
    hq, tokyo = await node_of(secured("hq", tmp_path, certs)), await node_of(secured("tokyo", tmp_path, certs))
    assert hq.tls_url.startswith("https://")
    await tokyo.append([readings(0, 20_000)])
    await hq.append([Append("registry", to_batch([Record("port/JPTYO", body={"type": "port"})]))])
    tokyo.link([PeerAddress(node="hq", url=hq.tls_url)])
    await until(lambda: hq.log.position("containers") == tokyo.log.position("containers"))
    await until(lambda: tokyo.log.position("registry") == hq.log.position("registry"))
    for node in (hq, tokyo):
        await node.stop()


async def test_a_token_still_does_where_there_is_a_credential_and_a_certificate_where_there_is_none(tmp_path: Path, certs: Path) -> None:
    """The ship comes with its token to the plain door, Tokyo with its certificate: each as headquarters' credentials have it."""
    own = secured("hq", tmp_path, certs)
    allow_peers(tmp_path / "hq", {"ship-a": "token-of-ship-a"})
    hq = await node_of(own)
    ship, tokyo = await node_of(settings("ship-a", tmp_path)), await node_of(secured("tokyo", tmp_path, certs))
    ship.link([address("ship-a", "hq", hq.url)])
    tokyo.link([PeerAddress(node="hq", url=hq.tls_url)])
    await until(lambda: set(hq.links.status()) == {"ship-a", "tokyo"})
    dialler = Dialler("tokyo")
    with refusal(NotAllowed, "peer_unknown", "token"):
        await dialler.dial(hq.url, "hq", "token-of-tokyo", "lan")
    await dialler.close()
    for node in (ship, tokyo, hq):
        await node.stop()


async def test_who_is_in_the_handshake_as_the_node_stops_is_let_go(tmp_path: Path, certs: Path) -> None:
    node = await node_of(secured("hq", tmp_path, certs))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(node.tls_url.rpartition(":")[2]))
    await until(lambda: len(node._doorkeeper._strangers) == 1)
    await node.stop()
    assert await reader.read() == b"", "of such a connection the application has never heard"
    writer.close()


def signed(folder: Path, certs: Path, name: str, since: datetime, days: float, authority: str = "authority") -> TlsFiles:
    """A certificate as a thief or a careless operator has it."""
    folder.mkdir(exist_ok=True)
    made = make_node(
        KeyAndCertificate((certs / f"{authority}.pem").read_bytes(), (certs / f"{authority}.key").read_bytes()), name, (), since, days
    )
    own = TlsFiles(certs / "authority.pem", folder / f"{name}.pem", folder / f"{name}.key")
    own.key.touch(0o600)
    own.key.write_bytes(made.key)
    own.certificate.write_bytes(made.certificate)
    return own


@pytest.mark.parametrize(
    ("what", "here", "there"),
    [
        ("expired", "has expired", "has expired"),
        ("early", "counts only from", "counts only from a later time on"),
        ("stranger", "'Pirates'", "is signed by an authority that is not known here"),
    ],
)
async def test_who_dials_with_a_wrong_certificate_is_told_and_so_is_who_was_dialled(
    tmp_path: Path, certs: Path, caplog: pytest.LogCaptureFixture, what: str, here: str, there: str
) -> None:
    now = datetime.now(UTC)
    since, authority = {"expired": now - timedelta(days=9), "early": now + timedelta(days=9)}.get(what, now), certs
    if what == "stranger":
        authority = tmp_path / "others"
        run("certs", "authority", str(authority), "--name", "Pirates")
    shown = signed(tmp_path / what, authority, "tokyo", since, 3)
    shown = TlsFiles(certs / "authority.pem", shown.certificate, shown.key)
    hq = await node_of(secured("hq", tmp_path, certs))
    dialler = Dialler("tokyo", shown)
    with caplog.at_level(logging.INFO, "landfall.node"), refusal(NotAllowed, "certificate_refused", "tokyo.pem", here):
        await dialler.dial(hq.tls_url, "hq", None, "lan")
    assert there in caplog.text
    assert not hq.links.status()
    await dialler.close()
    await hq.stop()


@pytest.mark.parametrize(("days", "why"), [(-10, "has expired, and with it all that it signed: it"), (3, "counts only from")])
async def test_an_authority_that_does_not_count_is_named_and_not_the_peer_s_good_certificate(
    tmp_path: Path, certs: Path, caplog: pytest.LogCaptureFixture, days: int, why: str
) -> None:
    """Headquarters says it when it starts, and who dials it in place of what is not so."""
    began = datetime.now(UTC) + timedelta(days=days)
    for name, made in (("authority", old := make_authority("Old", began, 5)), ("hq", make_node(old, "hq", (), began, 5))):
        (certs / f"{name}.pem").write_bytes(made.certificate)
        (certs / f"{name}.key").write_bytes(made.key)
    hq = await node_of(secured("hq", tmp_path, certs))
    assert f"{certs / 'authority.pem'} {why}" in caplog.text
    dialler = Dialler("tokyo", files(certs, "tokyo"))
    with refusal(NotAllowed, "certificate_refused", "authority.pem", why):
        await dialler.dial(hq.tls_url, "hq", None, "lan")
    await dialler.close()
    await hq.stop()


def brief(certs: Path, name: str, lasts_s: float) -> None:
    """In place of the node's certificate one that expires so soon; its files are replaced as an operator does it."""
    made = make_node(_authority(certs), name, ("127.0.0.1",), datetime.now(UTC), lasts_s / 86_400)
    replaced(certs, name, made)


def replaced(certs: Path, name: str, made: KeyAndCertificate) -> None:
    own = files(certs, name)
    for path, content in ((own.key, made.key), (own.certificate, made.certificate)):
        new = path.with_suffix(".new")
        new.touch(0o600)
        new.write_bytes(content)
        new.replace(path)


def _authority(certs: Path) -> KeyAndCertificate:
    return KeyAndCertificate((certs / "authority.pem").read_bytes(), (certs / "authority.key").read_bytes())


class AnHourAhead(WallClock):
    """What a session reads as the time: near the end of a certificate that is valid for an hour, which TLS takes all the same."""

    def now_ms(self) -> int:
        return super().now_ms() + 3_599_000


@pytest.mark.parametrize("name", ["tokyo", "hq"], ids=["of-who-dials", "of-who-is-dialled"])
async def test_a_session_ends_with_the_certificate_that_it_came_with_and_goes_on_with_another(
    tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Renewed while the nodes run: no node is started again, and nothing is missed. What is soon over is told of beforehand, once."""
    monkeypatch.setattr(certificate_renewal, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(session_runner, "WallClock", AnHourAhead)
    caplog.set_level(logging.INFO, "landfall.node")
    brief(certs, name, 3_600)
    hq, tokyo = await node_of(secured("hq", tmp_path, certs)), await node_of(secured("tokyo", tmp_path, certs))
    tokyo.link([PeerAddress(node="hq", url=hq.tls_url)])
    await until(lambda: "certificate_expired" in link_codes(caplog, name))
    own = hq if name == "hq" else tokyo

    def told_of() -> int:
        bodies = [row.record.body or {} for batch in own.log.read("exceptions", Position()) for row in batch.rows()]
        return sum(body["reason"] == "this node's certificate expires soon" for body in bodies)

    await until(lambda: told_of() == 1)
    brief(certs, name, 86_400 * 30)
    await until(lambda: (f"'{name}'", files(certs, name).certificate) in [record.args for record in caplog.records])
    await tokyo.append([readings(0, 10)])
    await until(lambda: hq.log.position("containers") == tokyo.log.position("containers"))
    assert told_of() == 1, "once, however often it is looked at"
    for node in (tokyo, hq):
        await node.stop()


async def test_what_does_not_load_is_told_and_the_last_that_did_is_shown_on(
    tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A key that is not the certificate's, and no key at all: who comes meanwhile comes in, on either side."""

    def not_renewed(name: str) -> list[BaseException]:
        arguments = [record.args for record in caplog.records if isinstance(record.args, tuple) and record.args[:1] == (f"'{name}'",)]
        return [problem for _, problem in arguments if isinstance(problem, BaseException)]

    def codes(name: str) -> list[str]:
        return [code for problem in not_renewed(name) for code in codes_of(problem)]

    monkeypatch.setattr(certificate_renewal, "LOOK_EVERY_S", 0.05)
    hq, tokyo = await node_of(secured("hq", tmp_path, certs)), await node_of(secured("tokyo", tmp_path, certs))
    of_another = make_authority("Other", datetime.now(UTC), 1).key
    for name in ("hq", "tokyo"):
        replaced(certs, name, KeyAndCertificate(files(certs, name).certificate.read_bytes(), of_another))
    await until(lambda: all(codes(name) == ["certificate_not_loaded"] for name in ("hq", "tokyo")))
    tokyo.link([PeerAddress(node="hq", url=hq.tls_url)])
    await until(lambda: "tokyo" in hq.links.status())
    files(certs, "hq").key.unlink()
    await until(lambda: any(isinstance(problem.__cause__, FileNotFoundError) for problem in not_renewed("hq")))
    tokyo.link([])
    await until(lambda: not hq.links.status())
    tokyo.link([PeerAddress(node="hq", url=hq.tls_url)])
    await until(lambda: "tokyo" in hq.links.status())
    assert codes("hq") == ["certificate_not_loaded"] * 2, "each problem is told once"
    for node in (tokyo, hq):
        await node.stop()


async def test_nobody_can_come_as_somebody_else(tmp_path: Path, certs: Path) -> None:
    """A certificate counts alone: not even the right token of another helps."""
    own = secured("hq", tmp_path, certs)
    allow_peers(tmp_path / "hq", {"ship-a": "token-of-ship-a"})
    hq = await node_of(own)
    dialler = Dialler("ship-a", files(certs, "tokyo"))
    with refusal(NotAllowed, "peer_unknown", "ship-a", "hq", "tokyo"):
        await dialler.dial(hq.tls_url, "hq", "token-of-ship-a", "lan")
    await dialler.close()
    await hq.stop()


async def test_who_is_dialled_must_be_who_was_meant(tmp_path: Path, certs: Path) -> None:
    """Another node's door, and one of another authority: nothing is said to either, not even a token."""
    hq = await node_of(secured("hq", tmp_path, certs))
    dialler = Dialler("tokyo", files(certs, "tokyo"))
    with refusal(NotAllowed, "certificate_refused", "'sydney'"):
        await dialler.dial(hq.tls_url, "sydney", None, "lan")
    await dialler.close()
    run("certs", "authority", str(tmp_path / "others"))
    own = files(certs, "tokyo")
    dialler = Dialler("tokyo", TlsFiles(tmp_path / "others" / "authority.pem", own.certificate, own.key))
    with refusal(NotAllowed, "certificate_refused", "authority"):
        await dialler.dial(hq.tls_url, "hq", None, "lan")
    await dialler.close()
    await hq.stop()


async def test_a_reader_elsewhere_needs_the_token_over_tls(tmp_path: Path, certs: Path) -> None:
    hq = await node_of(secured("hq", tmp_path, certs))
    context = trusting(certs / "authority.pem")

    def ask(token: str) -> int:
        request = urllib.request.Request(f"{hq.tls_url}/streams", headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as problem:
            with problem:
                return problem.code

    assert await asyncio.to_thread(ask, "door-of-hq") == 200
    assert await asyncio.to_thread(ask, "") == 401
    await hq.stop()


async def stalled(node: Node, said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Somebody at the TLS door who says no more than this."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(node.tls_url.rpartition(":")[2]))
    writer.write(said)
    return reader, writer


async def hung_up(reader: asyncio.StreamReader) -> None:
    """Before asyncio itself gives a handshake up."""
    with suppress(ConnectionResetError):
        async with asyncio.timeout(50.0):
            await reader.read()


async def test_who_does_not_end_the_handshake_is_let_go(tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like who asks nothing once it is done; and who has asked may ask again."""
    monkeypatch.setattr(connection_guard, "ASKS_WITHIN_S", 1.0)
    hq, context = await node_of(secured("hq", tmp_path, certs)), trusting(certs / "authority.pem")
    port = int(hq.tls_url.rpartition(":")[2])
    asked, silent = [await asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(2)]
    asked[1].write(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
    assert await asked[0].readuntil(b"}")
    halves = [await stalled(hq, said) for said in (b"", HELLO[:3], HELLO)]
    for reader, _ in (silent, *halves):
        await hung_up(reader)
    asked[1].write(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
    assert b"200 OK" in await asked[0].readuntil(b"}")
    for _, writer in (asked, silent, *halves):
        writer.close()
    await hq.stop()


async def test_of_many_that_do_not_end_the_handshake_the_longest_there_make_room(
    tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_guard, "ASKS_WITHIN_S", 3_600.0)
    monkeypatch.setattr(connection_guard, "STRANGERS_MAX", 20)
    hq = await node_of(secured("hq", tmp_path, certs))
    crowd = [await stalled(hq, HELLO[:3]) for _ in range(30)]
    for reader, _ in crowd[:10]:
        await hung_up(reader)
    await until(lambda: hq._doorkeeper.look() == 0)
    assert not any(reader.at_eof() for reader, _ in crowd[10:])
    tokyo = await node_of(secured("tokyo", tmp_path, certs))
    tokyo.link([PeerAddress(node="hq", url=hq.tls_url)])
    await until(lambda: "tokyo" in hq.links.status())
    for _, writer in crowd:
        writer.close()
    for node in (tokyo, hq):
        await node.stop()


def test_settings_that_can_not_prove_who_they_are_are_refused(tmp_path: Path, certs: Path) -> None:
    with refusal(ValidationError, "token", "https://"):
        PeerAddress(node="hq", url="http://127.0.0.1:1")
    told = settings("tokyo", tmp_path).model_dump()
    with refusal(ValidationError, "tls", "https://"):
        NodeSettings.model_validate({**told, "peers": [{"node": "hq", "url": "https://127.0.0.1:1"}]})
    (certs / "tokyo.key").chmod(0o644)
    with refusal(Misuse, "file_open"):
        Dialler("tokyo", files(certs, "tokyo"))


def test_the_commands_say_what_they_wrote_and_overwrite_nothing(certs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("certs", "show", str(certs / "tokyo.pem"))
    told = capsys.readouterr().out
    for value in ("'tokyo'", "'Landfall development'", "tokyo.node.landfall, localhost, 127.0.0.1", "364 days"):
        assert value in told
    assert (certs / "authority.key").stat().st_mode & 0o777 == 0o600
    for words, why in (
        (("certs", "authority", str(certs)), "file_exists"),
        (("certs", "node", "tokyo", "-f", str(certs)), "file_exists"),
        (("certs", "node", "Tokyo!", "-f", str(certs)), "node_name_invalid"),
        (("certs", "node", "kobe", "-f", str(certs / "none")), "file_unavailable"),
        (("certs", "node", "kobe", "osaka", "tokyo", "-f", str(certs)), "file_exists"),
        (("certs", "node", "kobe", "osaka", "Tokyo!", "-f", str(certs)), "node_name_invalid"),
        (("certs", "node", "kobe", "-f", str(certs), "--host", "hq.example:8871"), "host_invalid"),
        (("certs", "node", "kobe", "-f", str(certs), "--host", "my host"), "host_invalid"),
        (("certs", "show", str(certs / "tokyo.key")), "certificate_unreadable"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        assert codes_of(ended.value) == [why]
    assert not list(certs.glob("kobe*")), "of several nodes all are made, or none"


def test_a_certificate_counts_no_longer_than_its_authority(certs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("certs", "authority", str(certs / "short"), "--days", "2")
    run("certs", "node", "kobe", "-f", str(certs / "short"), "--days", "300")
    until = [describe((certs / "short" / f"{name}.pem").read_bytes()).until for name in ("authority", "kobe")]
    assert until[0] == until[1] < datetime.now(UTC) + timedelta(days=3)
    old = make_authority("Old", datetime.now(UTC) - timedelta(days=9), 5)
    (certs / "authority.pem").write_bytes(old.certificate)
    (certs / "authority.key").write_bytes(old.key)
    with pytest.raises(SystemExit) as ended:
        main(("certs", "node", "kobe", "-f", str(certs)))
    assert ended.value.code == 2
    assert codes_of(ended.value) == ["authority_expired"]
    assert not (certs / "kobe.key").exists()
