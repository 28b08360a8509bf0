"""Goal: what does not fit together in a configuration is told in one go with what is wrong in single settings, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from edge.settings import ShipSettings
from hq.fanout.settings import FanoutSettings
from intake.settings import BrokerSettings
from landfall.node.settings import KnownPeer, NodeSettings, PeerAddress
from landfall.process_table import settings_kinds
from landfall.runtime.settings_loader import load
from landfall.runtime.settings_types import models_in
from landfall.system.private_files import write_private
from landfall.system.settings_table import SettingsTable
from shore.settings import PortSettings
from streams.model.errors import Misuse
from tests.support.refusals import refusal

SHIP = """
[node]
node = "ship-a"
role = "ship"
identity = "9811000"
folder = "/var/lib/landfall"
port = 8770
clock = "wall"
known = [{ node = "hq", role = "hq" }, { node = "tokyo", role = "port" }]
peers = [{ node = "tokyo", url = "http://10.0.0.1:1", token = "t" }]
[node.links.satellite]
budget_bytes_per_day = 1000000
alerts_reserve_bytes = 1000
[node.log]
kind = "kafka"
brokers = "kafka:9092"
username = "ship-a"
password = "p"
replication = 3
min_insync = 2
[intake.endpoint]
port = 1883
[headquarters]
node = "hq"
url = "http://10.0.0.2:1"
token = "t"
[[ports]]
node = "tokyo"
url = "http://10.0.0.3:1"
token = "t"
locode = "JPTYO"
name = "Tokyo"
latitude_deg = 35.6
longitude_deg = 139.8
"""
MISTAKES = [
    ("port = 8770", 'port = "abc"', "node.port is 'abc' and should be a valid integer; write a whole number without quotes, like 8080"),
    (
        'clock = "wall"',
        'clock = "sundial"',
        'node.clock is \'sundial\' and should be of another form; write one like "wall" or "http://127',
    ),
    ('identity = "9811000"', 'identity = "9811001"', "node.identity: a ship's is its IMO number, not '9811001'; write its seven digits"),
    (
        '{ node = "tokyo", url = "http://10.0.0.1:1", token = "t" }',
        '{ node = "tokyo", url = "http://10.0.0.1:1" }',
        "node.peers[0].token: http://10.0.0.1:1 wants a token, for certificates go with https:// alone; write the one that is known there",
    ),
    (
        "budget_bytes_per_day = 1000000\n",
        "",
        "node.links.satellite.budget_bytes_per_day: there is no budget for alerts_reserve_bytes; "
        "write how many bytes a day may take, or take out alerts_reserve_bytes",
    ),
    (
        'username = "ship-a"',
        'username = "Ship A"',
        "node.log.username: 'Ship A' can not be written where a Kafka names a login; write letters and digits of ASCII, and after "
        "the first of them also . _ @ + -",
    ),
    (
        "min_insync = 2",
        "min_insync = 4",
        "node.log.min_insync: 4 of 3 copies can not have a record; write 3 or less, or raise replication",
    ),
    (
        'node = "hq"\nurl',
        'node = "sydney"\nurl',
        "headquarters.node: 'sydney' is to be dialled, but is not among node.known; write a [[node.known]] with its role",
    ),
    (
        "http://10.0.0.2:1",
        "https://10.0.0.2:1",
        "node.tls: '…' at https:// wants a certificate of this node's own; write the table [node.tls], or use http://",
    ),
    ('"JPTYO"', '"XX"', "ports[0].locode: 'XX' is no UN/LOCODE; write the port's five characters, like \"JPTYO\""),
    (
        "latitude_deg = 35.6",
        "latitude_deg = 95",
        "ports[0].latitude_deg is 95 and should be less than or equal to 90; write a number within",
    ),
    (
        'http://10.0.0.3:1"\ntoken = "t"',
        'http://10.0.0.3:1"\ntoken = " "',
        "ports[0].token: it is empty; write the same where it is shown and where it is known, or take the line out",
    ),
    ("[intake.endpoint]", "[intake.endpoint]\nretain = 1", "intake.endpoint.retain: there is no such setting; take it out"),
]
"""What is right, what is wrong instead, and what is told of it."""
ENVIRONMENT = {"LANDFALL_INTAKE__ENDPOINT__TLS_KEY": "door.key", "LANDFALL_WATCH__LATENESS_MS": "-1"}
OF_THE_ENVIRONMENT = {
    "LANDFALL_INTAKE__ENDPOINT__TLS_KEY": "intake.endpoint.tls_certificate",
    "LANDFALL_WATCH__LATENESS_MS": "LANDFALL_WATCH__LATENESS_MS is -1 and should be",
}


def told(folder: Path, text: str, variables: dict[str, str], kind: type[SettingsTable] = ShipSettings) -> list[str]:
    """What is wrong, a line each, without the file's name."""
    file = folder / "s.toml"
    write_private(file, text.encode())
    try:
        load(kind, file, variables, settings_kinds)
    except Misuse as problem:
        return [line.strip().removeprefix(f"{file}: ") for line in str(problem).splitlines()[1:-1]]
    return []


def with_mistakes(mended: int | None = None) -> str:
    text = SHIP
    for number, (right, wrong, _) in enumerate(MISTAKES):
        assert right in text
        text = text if number == mended else text.replace(right, wrong, 1)
    return text


def expected(mended: int | None = None) -> list[str]:
    renamed = [right for right, _, _ in MISTAKES].index('node = "hq"\nurl')
    name = "hq" if mended == renamed else "sydney"
    return [line.replace("…", name) for number, (_, _, line) in enumerate(MISTAKES) if number != mended]


def matched(lines: list[str], wanted: list[str]) -> None:
    """Each line is wanted once, and nothing is missing."""
    assert [line for line in lines if sum(line.startswith(one) for one in wanted) != 1] == []
    assert [one for one in wanted if sum(line.startswith(one) for line in lines) != 1] == []


def test_the_file_without_mistakes_holds(tmp_path: Path) -> None:
    assert told(tmp_path, SHIP, {}) == []


def test_all_mistakes_are_told_in_one_go(tmp_path: Path) -> None:
    """Of single settings and between them, in tables within tables, of file and environment."""
    matched(told(tmp_path, with_mistakes(), ENVIRONMENT), [*expected(), *OF_THE_ENVIRONMENT.values()])


@pytest.mark.parametrize("mended", range(len(MISTAKES)))
def test_each_mend_removes_its_own_line(tmp_path: Path, mended: int) -> None:
    matched(told(tmp_path, with_mistakes(mended), {}), expected(mended))


@pytest.mark.parametrize("mended", sorted(ENVIRONMENT))
def test_each_mend_of_the_environment_removes_its_own_line(tmp_path: Path, mended: str) -> None:
    variables = {name: value for name, value in ENVIRONMENT.items() if name != mended}
    matched(told(tmp_path, SHIP, variables), [OF_THE_ENVIRONMENT[name] for name in variables])


def test_a_variable_that_does_not_fit_the_file_is_named(tmp_path: Path) -> None:
    assert told(tmp_path, SHIP, {"LANDFALL_NODE__ROLE": "port"})[0].startswith("LANDFALL_NODE__ROLE: ")


def test_what_may_be_misspelt_is_not_called_missing_as_well(tmp_path: Path) -> None:
    assert told(tmp_path, SHIP.replace("known = [", "knwon = ["), {}) == ["node.knwon: there is no such setting; did you mean known?"]


def test_a_table_that_stands_elsewhere_is_told_where(tmp_path: Path) -> None:
    """Not to be taken out: who writes [broker] has one, and would lose what its sensors say."""
    said = told(tmp_path, f"{SHIP}\n[broker]\nport = 1883\n", {})
    assert len(said) == 1
    assert said[0].endswith("[intake.broker]?")
    assert told(tmp_path, f"{SHIP}\n[nothing]\nport = 1883\n", {})[0].startswith("nothing: ")


@pytest.mark.parametrize("line", ["known = = [", "[[node.known]", '{ node = "hq", role = }'])
def test_nothing_is_concluded_from_lines_that_do_not_read(tmp_path: Path, line: str) -> None:
    """What they hold may be what the others lack; what is wrong beside them is told."""
    if line.startswith("{"):
        text = SHIP.replace('known = [{ node = "hq", role = "hq" }', f"known = [\n{line}\n").replace("\n, {", "\n {")
    else:
        text = SHIP.replace('known = [{ node = "hq", role = "hq" }, { node = "tokyo", role = "port" }]', line)
    lines = told(tmp_path, text.replace("latitude_deg = 35.6", "latitude_deg = 95"), {})
    assert any("ports[0].latitude_deg" in one for one in lines)
    assert any("is not TOML" in one for one in lines)
    assert not any("is not among" in one for one in lines)


def test_what_two_lines_that_do_read_say_is_told_beside_one_that_does_not(tmp_path: Path) -> None:
    text = SHIP.replace("port = 8770", "port = = 8770").replace("min_insync = 2", "min_insync = 4")
    first, second = told(tmp_path, text, {})
    assert "is not TOML" in first
    assert second.startswith("node.log.min_insync: 4 of 3 copies")


ASHORE = """
[node]
node = "tokyo"
role = "ship"
folder = "f"
port = -1
known = [{ node = "tokyo", role = "port" }, { node = "hq", role = "hq" }, { node = "hq", role = "hq", identity = 1 }]
peers = [{ node = "hq", url = "https://10.0.0.2:1" },
  { node = 7, url = "https://10.0.0.3:1" }, { node = "oslo", url = "http://10.0.0.4:1", token = "" }]
"""


def test_what_is_right_of_a_list_is_judged_though_another_of_it_is_wrong(tmp_path: Path) -> None:
    assert [line.partition(" ")[0].rstrip(":") for line in told(tmp_path, ASHORE, {}, PortSettings)] == [
        "node.port",
        "node.known[2].identity",
        "node.peers[1].node",
        "node.peers[2].token",
        "node.known[2].node",
        "node.known[0].node",
        "node.peers[2].node",
        "node.tls",
        "node.identity",
        "node.role",
    ]


def test_a_fanout_tells_each_reader_that_is_none_of_its_own(tmp_path: Path) -> None:
    text = 'log = "l"\npartitions = 0\n[kafka]\nbrokers = "kafka:9092"\nusername = "landfall"\npassword = "p"\n' + "".join(
        f'[[readers]]\nusername = "{name}"\npassword = "p"\nstreams = ["alerts"]\n' for name in ("a", "landfall", "a")
    )
    assert [line.partition(" ")[0] for line in told(tmp_path, text, {}, FanoutSettings)] == [
        "partitions",
        "readers[2].username:",
        "readers[1].username:",
    ]


def test_headquarters_has_neither_way_in(tmp_path: Path) -> None:
    text = ASHORE.replace('"ship"', '"hq"') + '[intake.endpoint]\nport = 0\n[intake.broker]\nclient_id = ""\n'
    lines = told(tmp_path, text, {}, PortSettings)
    assert any(line.startswith("intake.endpoint: headquarters ") for line in lines)
    assert any(line.startswith("intake.broker: headquarters ") for line in lines)


def test_what_is_made_in_code_raises_for_all_that_does_not_fit_and_shows_no_secret(tmp_path: Path) -> None:
    with pytest.raises(ValidationError) as raised:
        NodeSettings.model_validate(
            {
                "node": "ship-a",
                "role": "ship",
                "folder": tmp_path,
                "known": (KnownPeer(node="ship-a", role="ship"),),
                "peers": (PeerAddress(node="hq", url="https://10.0.0.2:1"),),
            }
        )
    assert [one["loc"] for one in raised.value.errors()] == [("known", 0, "node"), ("peers", 0, "node"), ("tls",), ("identity",)]
    with refusal(ValidationError, "token") as refused:
        PeerAddress.model_validate({"node": "hq", "url": "http://10.0.0.2:1", "token": 987654321})
    assert "987654321" not in str(refused.value)


def test_a_node_stands_in_for_others_at_a_broker() -> None:
    with refusal(ValidationError, "stands_in_for.1", "'bridge'"):
        BrokerSettings(client_id="bridge", stands_in_for=("engine", "bridge"))
    with refusal(ValidationError, "client_id", "'ship/bridge'"):
        BrokerSettings(client_id="ship/bridge", stands_in_for=("engine",))
    with refusal(ValidationError, "stands_in_for.0", "'en#'"):
        BrokerSettings(client_id="bridge", stands_in_for=("en#",))
    BrokerSettings(client_id="ship/bridge")


def tables(kind: type[BaseModel]) -> set[type[BaseModel]]:
    return {kind}.union(*(tables(inner) for one in kind.model_fields.values() for inner in models_in(one.annotation)))


def test_every_table_of_every_process_tells_all_at_once() -> None:
    """None has a validator of its own for the whole table: it would end at the first problem, and say nothing while a value is wrong."""
    for kind in set[type[BaseModel]]().union(*(tables(kind) for kind in settings_kinds())):
        assert issubclass(kind, SettingsTable)
        assert set(kind.__pydantic_decorators__.model_validators) == {"_fits_together"}
