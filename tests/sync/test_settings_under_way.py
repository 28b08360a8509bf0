"""Goal: what headquarters sets of a stream reaches nodes at different times, and nobody is accused of it; what no setting can give is
refused at once.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from streams.config.roles import LAN, Peer
from streams.config.stream_definitions import Definitions
from streams.replication import Report, Session, Terms
from streams.replication import sync_messages as m
from streams.replication.receiver import PUT_OFF_MAX
from tests.sync.lying import Liar, begin_of


@pytest.mark.parametrize("stream", ["customers/ducks", "customers/ducks.heads", "registry", "terms/ducks", "aboard/9839430"])
def test_what_no_setting_gives_a_ship_is_refused_and_its_bringer_named(stream: str) -> None:
    """She has heard of no settings at all: it can not be that they are under way."""
    liar = Liar("hq")
    ship = Peer("ship-a", "ship", "9321483")
    terms = Terms(ship, Peer("liar", "hq"), LAN, {"liar": "hq"})
    liar.session = Session(liar.honest.exchange, terms, liar.world.clock.monotonic_s, lambda: None)
    liar.greet()
    liar.say(begin_of(liar, stream, "liar"))
    refusal = liar.refusal()
    assert refusal.code == "link_terms_broken"
    assert f"'{stream}'" in refusal.sentence


def test_who_has_heard_of_a_streams_settings_first_is_put_off_and_not_refused() -> None:
    """Headquarters has set that Tokyo gets a customer's stream, and Tokyo has heard of no settings of it: that is under way behind what
    goes by it. What headquarters has said meanwhile to be gone it will say again when they meet anew."""
    liar = Liar("hq")
    definitions = Definitions()
    terms = Terms(Peer("tokyo", "port", "JPTYO"), Peer("liar", "hq"), LAN, {"liar": "hq"}, definitions=definitions)
    liar.session = Session(liar.honest.exchange, terms, liar.world.clock.monotonic_s, lambda: None)
    stream = "customers/ducks"
    liar.say(liar.hello, m.Digests([(stream, bytes(8))], last=True))
    liar.say(m.Summary(stream, [m.OriginSummary("liar", 1, 9, 0, [], [])], last=True))
    begin = begin_of(liar, stream, "liar")
    liar.say(begin, m.Fragment(1, b"late"), m.Have(0, [(5, 9)]))
    assert [answer for answer in liar.answers() if isinstance(answer, m.Reject)] == [m.Reject(begin.transfer, "later")]
    assert not liar.session.closed
    definitions.take(stream, 1, {"replicate": ("customer/{}", "port/JPTYO")})
    assert not liar.session.missed(), "what it has it brings again of itself"
    definitions.take(stream, 2, {"replicate": ("customer/{}",)})
    liar.say(m.Gone(0, "lost", [(9, 12)]))
    assert not liar.session.missed(), "it is not shared yet"
    definitions.take(stream, 3, {"replicate": ("customer/{}", "port/JPTYO")})
    assert liar.session.missed()
    assert stream not in liar.honest.log.streams()


def test_who_goes_on_bringing_what_some_setting_could_give_is_named_once_and_not_refused() -> None:
    liar = Liar("hq")
    terms = Terms(Peer("tokyo", "port", "JPTYO"), Peer("liar", "hq"), LAN, {"liar": "hq"}, definitions=Definitions())
    liar.session = Session(liar.honest.exchange, terms, liar.world.clock.monotonic_s, lambda: None)
    liar.greet()
    begin = begin_of(liar, "customers/ducks", "liar")
    named = []
    for transfer in range(1, 2 * PUT_OFF_MAX):
        liar.say(replace(begin, transfer=transfer))
        named += [(transfer, effect.details) for effect in liar.session.effects() if isinstance(effect, Report)]
    [(transfer, details)] = named
    assert (transfer, details["peer"], details["stream"]) == (PUT_OFF_MAX, "liar", "customers/ducks")
    assert not liar.session.closed
    assert "customers/ducks" not in liar.honest.log.streams()


def test_who_has_heard_more_of_a_streams_settings_is_put_off_and_not_refused() -> None:
    """The port knows that quays go to Singapore alone; its peer has heard since that they go to Tokyo too."""
    liar = Liar()
    definitions = Definitions()
    definitions.take("quays", 1, {"replicate": ("hq", "port/SGSIN")})
    terms = Terms(Peer("tokyo", "port", "JPTYO"), Peer("liar", "port"), LAN, {}, definitions=definitions)
    liar.session = Session(liar.honest.exchange, terms, liar.world.clock.monotonic_s, lambda: None)
    liar.greet()
    begin = begin_of(liar, "quays", "liar")
    liar.say(begin, m.Fragment(1, b"late"), m.Have(0, [(5, 9)]), m.Gone(0, "lost", [(9, 12)]))
    rejects = [answer for answer in liar.answers() if isinstance(answer, m.Reject)]
    assert rejects == [m.Reject(begin.transfer, "later")]
    assert not liar.session.closed
    assert "quays" not in liar.honest.log.streams()
    definitions.take("quays", 2, {"replicate": ("hq", "port/SGSIN", "port/JPTYO")})
    liar.say(m.Have(0, [(5, 9)]))
    assert not liar.session.closed
    liar.say(m.Track(1, "registry", "liar", 1), m.Have(1, [(5, 9)]))
    assert liar.refusal().code == "link_terms_broken", "of what nobody may set otherwise there is no doubt"
