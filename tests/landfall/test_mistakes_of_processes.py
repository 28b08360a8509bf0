"""Goal: a file of each process that is wrong in many ways is told whole in one round, and one without mistakes is told nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.settings import ShipSettings
from hq.analytics.settings import AnalyticsSettings
from hq.api.settings import ApiSettings
from hq.fanout.settings import KafkaBrokerSettings
from hq.serving.projector import ProjectorSettings
from landfall.process_table import settings_kinds
from landfall.runtime.settings_loader import load
from landfall.system.private_files import write_private
from landfall.system.settings_table import ListenAddress, SettingsTable, barred
from shore.settings import PortSettings
from sim.settings import SimSettings
from sim.voyages import INTAKES
from streams.model.errors import Misuse

EVERYWHERE = "".join(f'[[intakes]]\nat = "{at}"\n' for at in INTAKES)
NODE = '[node]\nnode = "tokyo"\nrole = "{role}"\nidentity = "{identity}"\nfolder = "f"\nport = 8770\n'
SHIP, PORT = NODE.format(role="ship", identity="9811000"), NODE.format(role="port", identity="JPTYO")
TLS = '[node.tls]\nauthority = "a.pem"\ncertificate = "c.pem"\nkey = "k.pem"\n'
CALL = """[[ports]]
node = "tokyo-{n}"
url = "http://10.0.0.{n}:1"
token = "t"
locode = "JPTYO"
name = "Tokyo"
latitude_deg = 35
longitude_deg = 139
"""
EMPTY = "it is empty; write "
CASES: list[tuple[type[SettingsTable], str, list[str]]] = [
    (
        SimSettings,
        'data = "d"\nboxes = 3\n[api]\nurl = "x"\npassword = "p"\n' + f'[[intakes]]\nat = "{INTAKES[0]}"\n' * 2,
        [
            "boxes is 3 and should be greater than or equal to 40",
            "api.url is 'x' and should be of another form; write one like \"http://127.0.0.1:8780\"",
            f"intakes[1].at: there is an intake at '{INTAKES[0]}' already; leave one table of each intake",
            f"intakes: there is none at {', '.join(INTAKES[1:])}; write an [[intakes]] for each",
        ],
    ),
    (
        SimSettings,
        'data = ""\nclock_host = "http://here"\n' + EVERYWHERE.replace(INTAKES[2], "quay"),
        [
            f"data: {EMPTY}a path",
            "clock_host is 'http://here' and should be of another form; write one like \"127.0.0.1\"",
            "intakes[2].at is 'quay' and should be of another form",
        ],
    ),
    (
        ShipSettings,
        SHIP + "clock = 'sundial'\n" + TLS + "port = 8770\n[intake.endpoint]\nport = 8770\n[watch]\nlateness_ms = -1\n",
        [
            "node.clock is 'sundial' and should be of another form",
            "node.tls.port: node.port is port 8770 already; write another port",
            "intake.endpoint.port: node.port is port 8770 already; write another port",
            "watch.lateness_ms is -1 and should be",
        ],
    ),
    (
        ShipSettings,
        SHIP + 'host = "not a host"\n' + CALL.format(n=1) + CALL.format(n=2) * 2,
        [
            'node.host is \'not a host\' and should be of another form; write one like "127.0.0.1" or "localhost"',
            "ports[0].node: 'tokyo-1' is to be dialled, but",
            "ports[1].node: 'tokyo-2' is to be dialled, but",
            "ports[2].node: 'tokyo-2' is to be dialled, but",
            "ports[2].node: 'tokyo-2' is a port's node already; leave one table of each node",
        ],
    ),
    (
        PortSettings,
        PORT.replace('"f"', '""') + '[intake.endpoint]\nport = 8770\ntls_key = ""\ntls_certificate = "c.pem"\n',
        [
            f"node.folder: {EMPTY}a path",
            f"intake.endpoint.tls_key: {EMPTY}a path",
            "intake.endpoint.port: node.port is port 8770 already",
        ],
    ),
    (
        AnalyticsSettings,
        'log_dir = ""\ntables_dir = ""\ncheckpoint_dir = ""\nscratch_dir = ""\ntoken = ""\ndoor = "http://127.0.0.1:1"\n'
        'host = "not a host"\ntrigger_ms = -1\n[spark]\nmaster = ""\n',
        [
            f"log_dir: {EMPTY}a path",
            f"tables_dir: {EMPTY}a folder, or an object store's URL",
            f"checkpoint_dir: {EMPTY}a path",
            f"scratch_dir: {EMPTY}a path",
            f"token: {EMPTY}the token that `landfall credential add` gives at that node",
            "host is 'not a host' and should be of another form",
            "trigger_ms is -1 and should be",
            f'spark.master: {EMPTY}"local[2]", or',
        ],
    ),
    (
        ProjectorSettings,
        'log = ""\nhost = "not a host"\ndoor = "http://127.0.0.1:1"\npoll_interval_s = 0\n'
        '[places]\ntokyo = "tokyo"\nalbatross = "ship/9321483"\n',
        [
            f"log: {EMPTY}a path",
            "host is 'not a host' and should be of another form",
            "token: http://127.0.0.1:1 asks for one, and there is none; write the token that `landfall credential add` gives there, or",
            "poll_interval_s is 0 and should be",
            'places.tokyo is \'tokyo\' and should be of another form; write one like "ship/9321483" or "quay/JPTYO"',
        ],
    ),
    (
        ApiSettings,
        'log = ""\naccounts = ""\ndoor = "http://127.0.0.1:1"\ntoken = ""\nhost = "a/b"\nport = -1\n',
        [
            f"log: {EMPTY}a path",
            f"accounts: {EMPTY}a path",
            f"token: {EMPTY}the token that `landfall credential add` gives at that node",
            "host is 'a/b' and should be of another form",
            "port is -1 and should be",
        ],
    ),
    (
        KafkaBrokerSettings,
        'folder = ""\npassword = "12345678"\nhealth_port = 9093\nhost = "localhost"\n[[doors]]\nhost = "0.0.0.0"\nport = 9094\n',
        [
            f"folder: {EMPTY}a path",
            "broker_port: doors[0].port is port 9094 already; write another port",
            "health_port: controller_port is port 9093 already; write another port",
        ],
    ),
    (
        KafkaBrokerSettings,
        '[[doors]]\nhost = "0.0.0.0"\n',
        ["password: everybody knows the one of the settings' own, and the door at 0.0.0.0:9092 is open to other machines; write one"],
    ),
]
"""A file, and how each line that is told of it begins."""
RIGHT: list[tuple[type[SettingsTable], str]] = [
    (SimSettings, 'data = "d"\n[api]\nurl = "http://127.0.0.1:8780/"\npassword = "p"\n' + EVERYWHERE),
    (SimSettings, 'data = "d"\n[api]\nurl = "https://fleet.example/landfall"\npassword = "p"\n' + EVERYWHERE),
    (ShipSettings, SHIP + 'clock = "http://127.0.0.1:8790/clock"\nhost = "::1"\n' + TLS + "[intake.endpoint]\n"),
    (PortSettings, PORT.replace("8770", "0") + "[intake.endpoint]\nport = 0\n"),
    (PortSettings, PORT + '[intake.endpoint]\nhost = "10.0.0.7"\nport = 8770\n'),
    (ProjectorSettings, 'log = "l"\n'),
]


def told(folder: Path, kind: type[SettingsTable], text: str) -> list[str]:
    """What is wrong, a line each, without the file's name, which each must have."""
    file = folder / "s.toml"
    write_private(file, text.encode())
    try:
        load(kind, file, {}, settings_kinds)
    except Misuse as problem:
        lines = [line.strip() for line in str(problem).splitlines()[1:-1]]
        assert all(line.startswith(f"{file}: ") for line in lines)
        return [line.removeprefix(f"{file}: ") for line in lines]
    return []


@pytest.mark.parametrize(("kind", "text", "wanted"), CASES)
def test_all_mistakes_of_a_file_are_told_in_one_round(tmp_path: Path, kind: type[SettingsTable], text: str, wanted: list[str]) -> None:
    lines = told(tmp_path, kind, text)
    assert [line for line in lines if sum(line.startswith(one) for one in wanted) != 1] == []
    assert [one for one in wanted if sum(line.startswith(one) for line in lines) != 1] == []


@pytest.mark.parametrize(("kind", "text"), RIGHT)
def test_what_is_right_is_told_nothing(tmp_path: Path, kind: type[SettingsTable], text: str) -> None:
    assert told(tmp_path, kind, text) == []


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("0.0.0.0", "10.0.0.7", True),
        ("::1", "::", True),
        ("127.0.0.1", "10.0.0.7", False),
    ],
)
def test_a_port_is_had_once_of_each_host(one: str, two: str, told: bool) -> None:
    """Port 0, any free one, is had as often as one likes; another port is another door."""
    assert [problem.where for problem in barred([ListenAddress(("a",), one, 1), ListenAddress(("b",), two, 1)])] == [("b",)] * told
    assert list(barred([ListenAddress(("a",), one, 0), ListenAddress(("b",), two, 0)])) == []
    assert list(barred([ListenAddress(("a",), one, 1), ListenAddress(("b",), two, 2)])) == []


def test_projector_and_api_find_one_database_without_being_told_where(tmp_path: Path) -> None:
    """An SQLite file of the folder they are started in."""
    (tmp_path / "p.toml").write_text('log = "l"\n')
    write_private(tmp_path / "a.toml", b'log = "l"\naccounts = "a"\ndoor = "http://127.0.0.1:1"\ntoken = "t"\n')
    projecting, answering = load(ProjectorSettings, tmp_path / "p.toml", {}), load(ApiSettings, tmp_path / "a.toml", {})
    assert projecting.database_url == answering.database_url == "sqlite:///serving.db"
