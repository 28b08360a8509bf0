"""What must hold in a simulated fleet, judged apart from the code under test: after every act, and of the whole at rest.

Nothing lost, nothing twice, nothing changed, nobody told what he has no right to, no honest peer accused. Budgets: `radio.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streams.config.companion_streams import HEADS
from streams.config.roles import Peer
from streams.integrity.signer import signed_at_once
from streams.model.block import Block
from streams.model.identifiers import Origin
from streams.model.ranges import RangeSet
from streams.replication import Key, Report
from streams.replication import sync_messages as m
from streams.replication.exchange import HAS_NOT
from streams.replication.receiver import FORGED, UNCOVERED
from streams.replication.unreadable_blocks import MOST_S
from tests.sync.framelog import rows_of
from tests.sync.radio import Radio

if TYPE_CHECKING:
    from tests.sync.afloat import Fleet, Wired
    from tests.sync.nodes import Node, Way

ASHORE_EVERYWHERE = ("containers", "events", "alerts", "ships", "metrics", "registry", "homes")
OVER_SATELLITE = ("alerts", "ships", "aboard")
SETTABLE = "quays"
"""The stream whose rights headquarters sets otherwise while the fleet is under way."""
REFUTED = "a peer said that records are gone, and their origin has brought them"
SAID_WITHIN_S = 3.0
"""After so long a node has told its peers what it has got: nothing but a fragment is ever before that on the line."""
_JUDGED = (2, 3, 4, 10, 11, 13)
"""The numbers of the messages that are looked into: Digests, Summary, Track, Begin, Fragment, Ack."""


def may_hold(peer: Peer, key: Key, replicate: tuple[str, ...]) -> bool:
    """Whether a node may have these records, `replicate` being what is set of SETTABLE: what it wrote, what was made for it, no more."""
    stream, origin = key[0].removesuffix(HEADS), key[1]
    name, _, of = stream.partition("/")
    if origin.node == peer.node:
        return True
    if name == "customers":
        return peer.role == "customer" and of == peer.identity
    if stream == SETTABLE:
        return peer.role in replicate or f"{peer.role}/{peer.identity}" in replicate
    shore = peer.role in ("port", "hq")
    return (name == "aboard" and (shore or (peer.role == "ship" and of == peer.identity))) or (shore and stream in ASHORE_EVERYWHERE)


def may_bring(peer: Peer, key: Key) -> bool:
    """Whether a node's word is taken for what this origin wrote."""
    return peer.role in ("port", "hq") or (peer.role == "ship" and key[1].node == peer.node)


class Oracle:
    """Knows all that was ever written, and who may have it. Raises AssertionError as soon as something does not hold."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.truth: dict[Key, list[bytes]] = {}
        self.gone: dict[Key, RangeSet] = {}
        self.disaster: dict[Key, RangeSet] = {}
        self.replicates: list[tuple[str, ...]] = [("port", "hq")]
        self.suspects: set[str] = set()
        self.liars: set[str] = set()
        self.expected_reports: set[str] = set()
        self.data_messages = 0
        self.late_until_s = 0.0
        self._ever: dict[tuple[str, Key], RangeSet] = {}
        self._held: dict[tuple[str, Key], RangeSet] = {}
        self._since: dict[tuple[str, Key], list[tuple[float, RangeSet]]] = {}
        self._alone: dict[Wired, float] = {}
        self._unread_until_s: dict[tuple[str, Key], float] = {}
        self._radios: dict[str, Radio] = {}
        self._tracks: dict[Wired, list[Key]] = {}
        self._begun: dict[Wired, dict[int, tuple[Key, int, int]]] = {}

    def radio(self, node: Node) -> Radio:
        """The bill of this ship's satellite link."""
        if node.me.node not in self._radios:
            assert node.place.budget
            self._radios[node.me.node] = Radio(node, node.place.budget)
        return self._radios[node.me.node]

    def wrote(self, key: Key, first: int, rows: list[bytes]) -> None:
        """An origin has given offsets to new rows, for good."""
        known = self.truth.setdefault(key, [])
        assert first == len(known), f"{key} goes on at {first}, and {len(known)} offsets were given: one is given twice"
        known.extend(rows)

    def declared(self, key: Key, first: int, end: int) -> None:
        """An origin has said that these will never come."""
        self.gone.setdefault(key, RangeSet()).add(first, end)

    def dropped(self, ship: Node, key: Key, floor: int) -> None:
        """A ship makes room: of its own it lets go what headquarters has had, or what it has thinned itself."""
        left = RangeSet([(0, floor)]).without(self.gone.get(key, ()))
        for node in self._honest():
            left = left.without(self._ever.get((node.me.node, key), ()) if node.me.role == "hq" else ())
        assert not left or ship.place.lies, f"{ship.me.node} drops {left} of {key}, which headquarters has not had"

    def lost(self, key: Key, ranges: RangeSet) -> None:
        """A disk has lost these: if it was the last that had them, nobody can bring them again."""
        self.disaster.setdefault(key, RangeSet()).update(ranges)

    def spoiled(self, node: Node) -> None:
        """What a node has found spoiled on its disk is wanted again."""
        found, node.log.spoiled = node.log.spoiled, []
        for key, ranges in found:
            self.lost(key, ranges)
            self._held[node.me.node, key] = node.log.of(key).held.copy()
            self._since.pop((node.me.node, key), None)
        if found:
            node.exchange.changed(sorted({stream for (stream, _), _ in found}))

    def set_aside(self, node: Node, key: Key, first: int, end: int) -> None:
        """A node has found these not to be what was signed: it lets go of them."""
        self._held[node.me.node, key].remove(first, end)
        self._since.pop((node.me.node, key), None)

    def withheld(self, node: Node, streams: list[str]) -> None:
        """What a node can not read it wants again: that it once had it proves nothing."""
        for mine in [mine for mine in self._since if mine[0] == node.me.node and mine[1][0] in streams]:
            del self._since[mine]

    def committed(self, node: Node, stream: str) -> None:
        """A node's log has changed: what is gone there was said to be, by its origin, unless somebody lies."""
        if node.place.lies:
            return
        for origin, one in node.log.ledger(stream).items():
            key, here = (stream, origin), (node.me.node, (stream, origin))
            self._ever.setdefault(here, RangeSet()).update(one.settled())
            before = self._held.get(here, RangeSet())
            if before != one.held:
                left = before.without(one.held).without([(0, one.floor)])
                assert not left or origin.node == node.me.node, f"{node.me.node} lets go of {left} of {key}, and wrote none of it"
                self._since.setdefault(here, []).append((self._fleet.clock.at_s, one.held.without(before)))
                self._held[here] = one.held.copy()
            for ranges in one.gone.values():
                false = ranges.without(self.gone.get(key, ()))
                assert not false or self.liars, f"{node.me.node} believes {false} of {key} to be gone, and its origin never said so"

    def admitted(self, node: Node, block: Block) -> None:
        """A node has made a block durable: it is true, and may be there."""
        key = (block.stream, block.origin)
        if node.place.lies:
            return
        true = self.truth.get(key, [])[block.first : block.end]
        assert rows_of(block) == true, f"{node.me.node} has taken other rows of {key} from {block.first} than were written"
        may = any(may_hold(node.me, key, replicate) for replicate in self.replicates)
        assert may, f"{node.me.node} has {key}, which it may not have"

    def started(self, node: Node) -> None:
        """A node has started from its disk: what it holds is what that told, whatever it held before."""
        for mine in [mine for mine in self._held if mine[0] == node.me.node]:
            del self._held[mine]
            self._since.pop(mine, None)
        for stream in node.log.streams():
            self.committed(node, stream)

    def unread(self, node: Node, lasts_s: float) -> None:
        """A disk does not give, for so long, what it does not give now; who could not read that tries it again a while later."""
        for key in [key for key in node.log.lines() if node.log.bad(key)]:
            self._unread_until_s[node.me.node, key] = self._fleet.clock.at_s + lasts_s + MOST_S

    def late(self, seconds: float) -> None:
        """Everything was held up: for so long, what is sent in vain proves nothing."""
        self.late_until_s = self._fleet.clock.at_s + seconds

    def reported(self, node: Node, report: Report) -> None:
        """A node accuses a peer: it must be one that is at fault."""
        peer = report.details.get("peer")
        if report.reason in (FORGED, UNCOVERED) and self._excused(report):
            return
        if report.reason == HAS_NOT and peer not in self.suspects:
            had = self._ever.get((str(peer), _key_of(report)), RangeSet()).within(report.details["first"], report.details["end"])
            assert had.count() >= report.details["records"], f"{peer} never had them: {report.details}"
            return  # it has lost them
        if report.reason == REFUTED and self.liars:
            return  # it passed on what it had heard
        honest = peer not in self.suspects and node.me.node not in self.suspects and report.reason not in self.expected_reports
        assert not honest, f"{node.me.node} reports '{report.reason}' without cause: {report.details}"

    def _excused(self, report: Report) -> bool:
        """Whether what was signed of these records can not have come in time: all were held up, or no disk has it any more, or, where
        nobody is accused, who brought them can not read it."""
        key = _key_of(report)
        brought = self._fleet.nodes.get(str(report.details.get("peer")))
        unread = report.reason == UNCOVERED and brought is not None and self._unread(brought, (key[0] + HEADS, key[1]))
        return self._fleet.clock.at_s < self.late_until_s or self._unprovable(key) or unread

    def _unread(self, node: Node, key: Key) -> bool:
        """Whether the node's disk does not give some of this, or did not when it was read last."""
        return bool(node.log.bad(key)) or self._fleet.clock.at_s < self._unread_until_s.get((node.me.node, key), 0.0)

    def said(self, end: Wired, data: bytes) -> None:
        """A node says something: no name that the other may not know, no data that it may not have, no acknowledgement too early."""
        if data[1] in _JUDGED:
            self._said(end, m.decode(data))

    def heard(self, end: Wired, data: bytes) -> None:
        """A node has heard something: a session that was meant for another link does not go on."""
        if data[1] == 1 and isinstance(hello := m.decode(data), m.Hello):
            mine = end.connection.nonces[end is not end.connection.ends[0]]
            assert hello.answers == mine or end.session.closed, f"{end.node.me.node} goes by what was said on another link"

    def _said(self, end: Wired, message: m.Message) -> None:
        match message:
            case m.Digests() if not end.node.place.lies:
                for stream, _ in message.digests:
                    assert self._may_hear(end, stream), f"{end.node.me.node} names {stream} to {end.session.peer.node}"
            case m.Summary() if not end.node.place.lies:
                for origin in message.origins:
                    self._names(end, (message.stream, m.origin_of(origin)))
            case m.Track():
                key = (message.stream, m.origin_of(message))
                self._tracks.setdefault(end, []).append(key)
                if not end.node.place.lies:
                    self._names(end, key)
            case m.Begin():
                self._begins(end, message)
                self.data_messages += self._among_honest(end)
            case m.Fragment():
                self.data_messages += self._among_honest(end)
            case m.Ack() if not end.node.place.lies:
                for transfer in message.transfers:
                    key, first, last = self._begun[end.other][transfer]
                    durable = self._ever.get((end.node.me.node, key), RangeSet())
                    assert durable.covers(first, last), (
                        f"{end.node.me.node} acknowledges {key} {first}..{last - 1}, which is not durable there"
                    )
            case _:
                pass

    def _begins(self, end: Wired, begin: m.Begin) -> None:
        key = self._tracks[end][begin.track]
        self._begun.setdefault(end, {})[begin.transfer] = (key, begin.first, begin.end)
        if end.node.place.lies:
            return
        assert self.flows(end.node, end.session.peer, key), (
            f"{end.node.me.node} sends {key} to {end.session.peer.node}, who may not have it"
        )
        assert not self._known_there(end, key, begin), f"{end.node.me.node} sends {key} to {end.session.peer.node}, who has said it has it"
        assert self._carried(end, key[0]), f"{end.node.me.node} sends {key} over a {end.policy.link_class} link"

    def _among_honest(self, end: Wired) -> bool:
        return not self.liars & {end.node.me.node, end.session.peer.node}

    def _known_there(self, end: Wired, key: Key, begin: m.Begin) -> bool:
        """Whether the peer has had all of it for a while, and has been heard since: it has said so before."""
        if end.session.peer.node in self.liars or key[0] == SETTABLE:
            return False  # in the latter case not all have heard the same of who may have it
        lacks = RangeSet([(begin.first, begin.end)])
        for at_s, gained in self._since.get((end.session.peer.node, key), []):
            if max(at_s, end.connection.since_s, self.late_until_s) + SAID_WITHIN_S < end.heard_s:
                lacks = lacks.without(gained)
        return not lacks

    def _names(self, end: Wired, key: Key) -> None:
        peer, replicate = end.session.peer, _set_of(end.node)
        if key[0] == SETTABLE:
            return  # that there is such a stream all may know
        comes = may_hold(end.node.me, key, replicate) and may_bring(peer, key)
        hears = (may_hold(peer, key, replicate) or comes) and self._may_hear(end, key[0])
        assert hears, f"{end.node.me.node} names {key} to {peer.node}"

    def _may_hear(self, end: Wired, stream: str) -> bool:
        peer, replicate = end.session.peer, _set_of(end.node)
        return any(may_hold(peer, key, replicate) for key in self.truth if key[0] == stream)

    def _carried(self, end: Wired, stream: str) -> bool:
        name = stream.removesuffix(HEADS).partition("/")[0]
        return end.policy.link_class != "satellite" or name in OVER_SATELLITE

    def flows(self, source: Node, target: Peer, key: Key) -> bool:
        """Whether this node may send that one these records, for all that is known at it."""
        replicate = _set_of(source)
        return may_bring(source.me, key) and may_hold(source.me, key, replicate) and may_hold(target, key, replicate)

    def check_sessions(self) -> None:
        """What a node takes its peer to have settled, that peer had durably; and none goes on for long with nobody at its other end."""
        now_s = self._fleet.clock.at_s
        for connection in self._fleet.connections:
            for end in connection.ends:
                if end.up and not end.other.up and not end.session.closed:
                    alone_s = now_s - max(self._alone.setdefault(end, now_s), self.late_until_s)
                    assert alone_s <= end.policy.pace.dead_after_s + 1.0, f"{end.node.me.node} speaks to nobody"
                if end.up and end.life == end.node.life and end.session.peer.node not in self.liars and not end.node.place.lies:
                    for key, ranges in end.session.sender.settled_by_peer().items():
                        false = ranges.without(self._ever.get((end.session.peer.node, key), ()))
                        assert not false, f"{end.node.me.node} believes that {end.session.peer.node} has {false} of {key}"

    def lacking(self, way: Way) -> Iterator[str]:
        """What one end of a way holds, the other may have, and has not. Of what was signed and no disk has any more nothing is expected."""
        ends = self._fleet.nodes[way.a], self._fleet.nodes[way.b]
        if self.liars & {way.a, way.b}:
            return
        for source, target in (ends, ends[::-1]):
            for key in sorted(set(source.log.lines()) & set(self.truth)):
                if self._comes(source, target, key) and (lacks := self._lacks(source, target, key)):
                    yield f"{target.me.node} has not heard of {lacks} of {key}, and {source.me.node} has"

    def _comes(self, source: Node, target: Node, key: Key) -> bool:
        honest = key[1].node not in self.liars and not self._unprovable(key)
        if key[0] == SETTABLE and _set_of(source) != _set_of(target):
            return False  # the last disk that had headquarters' word on it has lost that
        return honest and self.flows(source, target.me, key) and may_hold(target.me, key, _set_of(target))

    def _lacks(self, source: Node, target: Node, key: Key) -> RangeSet:
        """What is held there, or gone by a word that is believed, and neither here."""
        one, settled = source.log.of(key), self._truly_settled(target, key)
        at_once = source.me.node == key[1].node or source.me.role == "hq"
        gone = one.all_gone() if at_once else one.all_gone().within(0, target.log.of(key).held.end())
        lacks = one.held.within(0, len(self.truth[key])).without(source.log.bad(key))
        lacks.update(gone.common(self.gone.get(key, ())))
        return lacks.without(settled)

    def proven(self) -> bool:
        """Whether all that is acted upon can be believed by everybody, for all that disks have lost."""
        return not any(self._unprovable(key) for key in self.truth)

    def _unprovable(self, key: Key) -> bool:
        """Whether disks have lost what was signed of some of these, or some of what was signed together, or give it nobody."""
        signed = (key, (key[0] + HEADS, key[1]))
        return signed_at_once(key[0]) and any(one in self.disaster or self._withheld(one) for one in signed)

    def _withheld(self, key: Key) -> RangeSet:
        """What disks hold of it and none gives."""
        logs = [node.log for node in self._honest()]
        withheld = RangeSet(part for log in logs for part in log.bad(key))
        for log in logs if withheld else ():
            withheld = withheld.without(log.of(key).held.without(log.bad(key)))
        return withheld

    def _truly_settled(self, node: Node, key: Key) -> RangeSet:
        """What it holds, or has dropped, or was told is gone by who may say so."""
        one = node.log.of(key)
        settled = one.held.without(node.log.bad(key))
        settled.add(0, one.floor)
        settled.update(one.all_gone().common(self.gone.get(key, ())))
        return settled

    def _honest(self) -> list[Node]:
        return [node for node in self._fleet.nodes.values() if not node.place.lies]

    def unheard(self, ship: Node) -> Iterator[str]:
        """Alerts of a ship that nobody ashore has, nor any that has lost them since."""
        for key in ship.log.lines():
            if key[0] == "alerts" and key[1].node == ship.me.node and not self._unprovable(key):
                left = ship.log.of(key).held.without(self.disaster.get(key, ())).without(ship.log.bad(key))
                for node in self._honest():
                    left = left.without(node.log.of(key).settled() if node.me.role in ("port", "hq") else ())
                if left:
                    yield f"nobody ashore has heard {left} of {key}"

    def check_whole(self) -> None:
        """At rest: every copy reads as it was written, what no disaster took is somewhere, and a restart changes nothing."""
        nodes = self._honest()
        for key, rows in self.truth.items():
            if key[1].node in self.liars:
                continue
            left = RangeSet([(0, len(rows))]).without(self.gone.get(key, ())).without(self.disaster.get(key, ()))
            for node in nodes:
                one = node.log.of(key)
                left = left.without(one.held)
                if node.me.role == "hq":
                    left = left.without([(0, one.floor)])
            assert not left, f"{left} of {key} is nowhere"
        for node in nodes:
            self.check_copy(node)
            before = {key: node.log.of(key) for key in node.log.lines()}
            node.start()
            after = {key: node.log.of(key) for key in node.log.lines()}
            assert before == after or node.disk.spoilt, f"{node.me.node} is another after a restart"

    def check_copy(self, node: Node) -> None:
        """Every row that a node says it holds is there as it was written, or is found spoiled now; and may be there."""
        for key in list(node.log.lines()):
            held = node.log.of(key).held.copy()
            for block in list(node.log.blocks(key, 0, held.end())):
                true = self.truth[key][block.first : block.end]
                assert rows_of(block) == true, f"{node.me.node} has changed rows of {key} from {block.first}"
                held.remove(block.first, block.end)
            assert not held or node.log.spoiled, f"{node.me.node} says it holds {held} of {key}"
            self.spoiled(node)
            may = any(may_hold(node.me, key, replicate) for replicate in self.replicates)
            assert may or not node.log.of(key).held, f"{node.me.node} has {key}, which it may not have"


def _set_of(node: Node) -> tuple[str, ...]:
    """What this node has heard to be set of SETTABLE."""
    return node.definitions.of(SETTABLE).replicate


def _key_of(report: Report) -> Key:
    return str(report.details["stream"]), Origin.parse(str(report.details["origin"]))
