"""Peers that lie: what they say in a session beside what they have to, and what they have in their logs that nobody wrote."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from streams.config.companion_streams import HEADS
from streams.integrity.hash_chain import Chain, entries
from streams.integrity.signer import signed_at_once
from streams.integrity.statements import state
from streams.model.identifiers import Origin
from streams.model.ledger import GONE_REASONS
from streams.model.records import body_text
from streams.replication import Key, Session
from streams.replication import sync_messages as m
from tests.sync.framelog import block_of
from tests.sync.nodes import Node
from tests.sync.signing import CODEC_OF_ROWS, key_of

LIES = 0.06
"""How likely a lie goes before the next message."""
PLAYS_BACK = 0.2
"""How likely a session is nothing but what was said to the same peer in an earlier one."""
PLAYED_MAX = 60
"""So many messages of a session are kept to be played back."""
FAR = 1_000
KINDS = ("has", "gone", "wants", "claims", "unclaims", "neighbours", "acks", "rejects", "hello", "fragment", "garbage")


class Liar(Session):
    """A session whose node says, at any moment, what is not so."""

    def begin(self, chance: random.Random, keys: Sequence[Key], names: Sequence[str], said: list[bytes]) -> None:
        """`keys`: all there is, whether it may know of it or not; `names`: of all nodes; `said`: what it said to this peer in its last
        session, in place of which it is to put what it says in this one.
        """
        self._chance, self._keys, self._names = chance, keys, names
        self._played = [*said] if chance.random() < PLAYS_BACK else []
        self._said = said
        if not self._played:
            said.clear()

    def next_message(self) -> bytes | None:
        """As of any session, with a lie before it now and then; or what was said before, word by word."""
        if self._played:
            return self._played.pop(0)
        message = self._message()
        if message is not None and len(self._said) < PLAYED_MAX:
            self._said.append(message)
        return message

    def _message(self) -> bytes | None:
        if self.open and self._keys and self._chance.random() < LIES:
            lie = self._lie()
            if isinstance(lie, bytes):
                return lie
            self._announcer.say(lie)
        return super().next_message()

    def _lie(self) -> m.Message | bytes:
        chance, key = self._chance, self._chance.choice(self._keys)
        first = chance.randrange(FAR)
        match chance.choice(
            ["has", "gone", "wants", "claims", "unclaims", "neighbours", "acks", "rejects", "hello", "fragment", "garbage"]
        ):
            case "has":
                return m.Have(self._announcer.number(key), [(0, first + 1)])
            case "gone":
                return m.Gone(self._announcer.number(key), chance.choice(GONE_REASONS), [(first // 10, first + 1)])
            case "wants":
                return m.Want(self._announcer.number(key), [(0, FAR)])
            case "claims":
                return m.Claim(self._announcer.number(key), 0, FAR)
            case "unclaims":
                return m.Unclaim(self._announcer.number(key), 0, FAR)
            case "neighbours":
                return m.Neighbours(list(self._names))
            case "acks":
                return m.Ack(list(range(1, 1 + chance.randrange(1, 40))))
            case "rejects":
                return m.Reject(chance.randrange(1, 40), chance.choice(["elsewhere", "later", "restart", "damaged"]))
            case "hello":
                me = self._terms.me
                return m.Hello(m.PROTOCOL, m.PROTOCOL, me.node, "hq", "", 1, ["*"], [], b"")
            case "fragment":
                return m.Fragment(FAR, b"x")
            case _:
                return b"\x91\x00" + chance.randbytes(40)


def forge(liar: Node, truth: Mapping[Key, list[bytes]], row: Callable[[bytes], bytes], chance: random.Random) -> None:
    """The liar has other records under some offsets of what others act upon, or further ones, or a generation that there never was; signed
    by itself, or with what was signed of the true ones, or not at all. Or it has something that was truly signed in another's place.
    """
    keys = [key for key in sorted(truth) if signed_at_once(key[0]) and key[1].node != liar.me.node and truth[key]]
    if not keys or liar.disk.full:
        return
    stream, origin = chance.choice(keys)
    true, said_of = truth[stream, origin], (stream + HEADS, origin)
    if chance.random() < 0.3 and truth.get(said_of):
        at = chance.randrange(len(truth[said_of]) + 1)
        liar.log.forge(block_of(said_of, at, [chance.choice(truth[said_of])]))
        return liar.changed(said_of[0])
    if chance.random() < 0.3:
        true, origin = [], Origin(origin.node, origin.generation + 1)
    first = chance.randrange(len(true) + 1)
    false = [row(_obeyed(stream, chance)) for _ in range(chance.randrange(1, 5))]
    liar.log.forge(block_of((stream, origin), first, false))
    if chance.random() < 0.7:
        all_rows = true[:first] + false
        chain = Chain(stream, origin)
        chain.follow(CODEC_OF_ROWS.decode(block_of((stream, origin), 0, all_rows)))
        commit = entries(CODEC_OF_ROWS.decode(block_of((stream, origin), first, false)))
        said = bytes(8) + body_text(state(chain, 0, key_of(liar.me.node), commit).body()).encode()
        at = chance.choice([0, len(truth.get((stream + HEADS, origin), ()))])
        liar.log.forge(block_of((stream + HEADS, origin), at, [said]))
        liar.changed(stream + HEADS)
    liar.changed(stream)


def _obeyed(stream: str, chance: random.Random) -> bytes:
    """What harms whoever believes it."""
    match stream:
        case "registry":
            return msgspec.msgpack.encode(["quays", FAR, ["port", "hq", "ship", "customer"]])
        case "homes":
            return msgspec.msgpack.encode(["containers", ["tokyo", chance.randrange(FAR)], FAR])
    return b"lost at sea"
