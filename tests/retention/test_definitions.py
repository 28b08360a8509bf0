"""Goal: each stream is managed as headquarters has set it, by default as ever; every problem of a definition is told, and no setting opens
a customer's boundary.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from landfall.node.settings import NodeSettings
from streams.config.definition_format import read_fields
from streams.config.roles import Lane, Peer, Role
from streams.config.stream_definitions import DEFAULTS, Definition, Definitions, Retention, is_home, may_have, may_originate
from tests.support.refusals import refusal

TOKYO, SINGAPORE, HQ = Peer("tokyo", "port", "JPTYO"), Peer("singapore", "port", "SGSIN"), Peer("hq", "hq")
SHIP, DUCKS, COGS = Peer("ship-a", "ship", "9321483"), Peer("ducks", "customer", "duckworks"), Peer("cogs", "customer", "cogs")


def set_of(named: dict[str, dict[str, Any]]) -> Definitions:
    definitions = Definitions()
    for number, (name, value) in enumerate(named.items(), 1):
        definitions.take(name, number, read_fields(name, value))
    return definitions


@pytest.mark.parametrize(
    ("stream", "has", "lane", "patience_s"),
    [
        ("containers", {"tokyo", "singapore", "hq"}, Lane.READINGS, None),
        ("alerts", {"tokyo", "singapore", "hq"}, Lane.ALERTS, 0.0),
        ("registry", {"tokyo", "singapore", "hq"}, Lane.ALERTS, None),
        ("aboard/9321483", {"tokyo", "singapore", "hq", "ship-a"}, Lane.ALERTS, None),
        ("aboard/9839430", {"tokyo", "singapore", "hq"}, Lane.ALERTS, None),
        ("customers/duckworks", {"ducks"}, Lane.READINGS, None),
        ("ports/JPTYO", {"tokyo", "singapore", "hq"}, Lane.READINGS, None),
        ("metrics", {"tokyo", "singapore", "hq"}, Lane.METRICS, None),
    ],
)
def test_by_default(stream: str, has: set[str], lane: Lane, patience_s: float | None) -> None:
    definition = Definitions().of(stream)
    assert {peer.node for peer in (TOKYO, SINGAPORE, HQ, SHIP, DUCKS, COGS) if may_have(peer, definition)} == has
    assert (definition.lane, definition.patience_s, definition.retention) == (lane, patience_s, Retention())


@pytest.mark.parametrize(
    ("stream", "role", "may"),
    [
        ("containers", "ship", True),
        ("containers", None, True),
        ("containers", "customer", False),
        ("registry", "hq", True),
        ("registry", "port", False),
        ("aboard/9321483", "ship", False),
        ("customers/duckworks", None, False),
        ("states", "hq", True),
    ],
)
def test_who_writes_by_default(stream: str, role: Role | None, may: bool) -> None:
    assert may_originate(Definitions().of(stream), role, "somebody") is may


def test_what_is_left_open_is_as_the_next_less_special_one_says() -> None:
    definitions = set_of(
        {
            "customers/*": {"retention": {"age_days": 365}},
            "customers/duckworks": {"retention": {"bytes": 1 << 30}},
            "*": {"lane": "metrics", "retention": {"age_days": 9}},
        }
    )
    assert definitions.of("customers/duckworks").retention == Retention(365, 1 << 30)
    assert definitions.of("customers/duckworks").replicate == ("customer/duckworks",)
    assert definitions.of("customers/cogs").retention == Retention(365)
    assert definitions.of("alerts").lane == Lane.ALERTS, "what the defaults say of alerts is more special than the star"
    assert definitions.of("alerts").retention == Retention(9)
    assert definitions.of("containers").lane == Lane.METRICS


def test_a_stream_for_one_port_then_for_another() -> None:
    definitions = set_of({"quays": {"replicate": ["hq", "port/SGSIN"]}})
    assert [may_have(peer, definitions.of("quays")) for peer in (SINGAPORE, TOKYO, HQ)] == [True, False, True]
    assert definitions.take("quays", 2, read_fields("quays", {"replicate": ["hq", "node/tokyo"]}))
    assert [may_have(peer, definitions.of("quays.kept")) for peer in (SINGAPORE, TOKYO, HQ)] == [False, True, True]
    assert not definitions.take("quays", 1, {}), "an older version comes late and changes nothing"
    assert definitions.versions() == {"quays": 2}


def test_a_home_of_its_own_and_writers_of_its_own() -> None:
    definition = set_of({"quays": {"home": "port/JPTYO", "replicate": ["port"], "originate": ["node/tokyo", "ship"]}}).of("quays")
    assert [is_home(peer, definition) for peer in (TOKYO, SINGAPORE, HQ)] == [True, False, False]
    assert may_originate(definition, None, "tokyo")
    assert may_originate(definition, "ship", "ship-a")
    assert not may_originate(definition, "port", "singapore")


def test_the_written_form_reads_back() -> None:
    for name in (*(name.replace("*", "9321483") for name in DEFAULTS), "containers"):
        definition = Definitions().of(name)
        other = Definitions()
        other.take(name, 1, read_fields(name, definition.to_json()))
        assert other.of(name) == definition


def test_every_problem_is_told_at_once() -> None:
    value = {
        "retention": {"age_days": -1, "bytes": 1.5, "hours": 3},
        "home": "the moon",
        "replicate": ["ports", "node/TOKYO", "port/"],
        "originate": ["customer", "port/JPTYO"],
        "lane": "fast",
        "patience_s": -1,
        "access": "role:claims",
        "owner": "me",
    }
    with pytest.raises(ValueError, match=repr("No Stream")) as told:
        read_fields("No Stream", value)
    problems = str(told.value).splitlines()
    assert repr("No Stream") in problems[0]
    fields = [problem.partition(":")[0] for problem in problems[1:]]
    assert fields == [
        *["owner", "retention", "retention", "retention", "home", "replicate", "replicate", "replicate"],
        *["originate", "originate", "lane", "patience_s", "access", "home"],
    ]


def test_a_pattern_is_the_beginning_of_streams_names() -> None:
    definitions = set_of({"quays.*": {"patience_s": 1}, "quays.to*": {"patience_s": 2}, "yard/cranes/*": {"patience_s": 3}})
    names = ("quays.sydney", "quays.tokyo", "yard/cranes/7", "quays")
    assert [definitions.of(name).patience_s for name in names] == [1, 2, 3, None]
    for name in ("*.tokyo", "quays.**", ".*", "quays.*.tokyo", "quays .*", "Quays.*"):
        with pytest.raises(ValueError, match=re.escape(repr(name))):
            read_fields(name, {"patience_s": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("containers", {"replicate": ["hq", "customer"]}),
        ("containers", {"replicate": ["hq", "customer/duckworks"]}),
        ("customers/duckworks", {"replicate": ["customer/cogs"]}),
        ("customers/*", {"replicate": ["ship"]}),
        ("registry", {"replicate": ["hq", "ship"]}),
        ("aboard/9321483", {"replicate": ["hq", "ship/9839430"]}),
        ("aboard/*", {"replicate": ["hq", "ship"]}),
        ("registry", {"originate": ["hq", "port"]}),
        ("customers/duckworks", {"originate": ["*"]}),
        ("quays", {"replicate": ["port"], "originate": ["ship"]}),
        ("quays", {"replicate": ["hq"], "home": "port/JPTYO"}),
        ("customers/ducks", {"home": "customer/ducks"}),
        ("registry", {"retention": {"age_days": 30}}),
        ("aboard/*", {"retention": {"bytes": 30}}),
    ],
)
def test_no_setting_opens_a_boundary(name: str, value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(replicate|originate|home|retention): [^\n]*$"):
        read_fields(name, value)


def test_all_fields_are_told() -> None:
    assert set(Definition().to_json()) == set(Definition.__dataclass_fields__)


def test_a_copy_s_own_way_is_the_most_special_and_touches_nothing_that_must_hold() -> None:
    own = {"*": Retention(age_days=1), "quays.*": Retention(age_days=2), "quays.tokyo": Retention()}
    definitions = Definitions(own)
    definitions.take("quays.tokyo", 1, {"retention": {"age_days": 60}})
    kept = {name: definitions.of(name).retention for name in ("ships", "quays.sydney", "quays.sydney.heads", "quays.tokyo", "registry")}
    assert kept == {
        "ships": Retention(age_days=1),
        "quays.sydney": Retention(age_days=2),
        "quays.sydney.heads": Retention(age_days=2),
        "quays.tokyo": Retention(),
        "registry": Retention(),
    }
    assert definitions.set_for_all("quays.tokyo") == Retention(age_days=60)
    assert (definitions.kept_here("registry"), Definitions().kept_here("ships")) == (None, None)


def test_settings_that_would_drop_what_holds_are_refused(tmp_path: Path) -> None:
    node = {"node": "tokyo", "role": "port", "identity": "JPTYO", "folder": tmp_path}
    for name in ("registry", "aboard/9321483"):
        with refusal(ValidationError, f"keep.{name}"):
            NodeSettings.model_validate({**node, "keep": {name: {"age_days": 30}}})
    assert NodeSettings.model_validate({**node, "keep": {"*": {"age_days": 30}}}).retentions() == {"*": Retention(age_days=30)}
