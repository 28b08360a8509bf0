"""Goal: of what can not be read `exceptions` keep the beginning and what proves the rest, and no more of it than so much an hour; what can
is kept whole."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from intake.message_types import KEPT_BYTES_MAX, Outcome, Publish
from intake.reject_limits import ACCOUNTS_MAX, ALL_TIMES, RECORD_BYTES, SPAN_S, Refusals
from intake.settings import TAKEN_BYTES_MAX, BrokerSettings, EndpointSettings, PipelineSettings
from streams.model.clock import StillClock
from tests.intake.stand import AT, TOPIC, Publisher, Stand, eventually, payload, stand
from tests.support.credentials import allow_gateway


async def test_the_longest_payload_that_is_taken_is_kept_whole_if_it_reads_and_described_if_not(tmp_path: Path) -> None:
    """At the highest limit that settings allow, of bytes that do not compress."""
    noise = random.Random(1).randbytes(TAKEN_BYTES_MAX - 4_000)
    text = base64.b64encode(noise[: TAKEN_BYTES_MAX // 4 * 3 - 6_000]).decode()
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), packet_bytes_max=TAKEN_BYTES_MAX)
    async with stand(tmp_path, settings) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, sent) for sent in (payload(0), noise, payload(1, note=text))}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
        _, longest = one.rows("containers")
        assert (longest.record.body or {})["note"] == text
        (row,) = one.rows("exceptions")
        body = row.record.body or {}
        assert (body["outcome"], body["payload_bytes"]) == ("malformed", len(noise))
        assert body["payload_sha256"] == hashlib.sha256(noise).hexdigest()
        assert base64.b64decode(body["payload_base64"]) == noise[:KEPT_BYTES_MAX]


async def test_a_secret_in_what_does_not_read_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    """The value alone, also where the payload is no JSON."""
    sent = b'{"wifi": {"ssid": "deck", "password": "hunter2"}, "t": 4.5, oops'
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",))
    async with stand(tmp_path, settings) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, sent)}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
        (row,) = one.rows("exceptions")
    body = row.record.body or {}
    assert base64.b64decode(body["payload_base64"]) == sent.replace(b"hunter2", b"***")
    assert (body["secrets_masked"], body["payload_bytes"], body["outcome"]) == (1, len(sent), "malformed")


def test_no_setting_takes_what_a_block_could_not_hold() -> None:
    with pytest.raises(ValidationError):
        EndpointSettings(packet_bytes_max=TAKEN_BYTES_MAX + 1)
    with pytest.raises(ValidationError):
        BrokerSettings(client_id="ship", payload_bytes_max=TAKEN_BYTES_MAX + 1)


KEPT, SAID = 10, 400
TWO = ("malformed", "unknown_topic")
FLOODED = PipelineSettings(exceptions_bytes_per_h=KEPT * (RECORD_BYTES + KEPT_BYTES_MAX))


def two_gateways(folder: Path) -> None:
    """They may publish what they like at the stand in `folder`."""
    for name in ("mad", "sound"):
        allow_gateway(folder, name, name[0], "landfall/#")


def told(one: Stand) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records of messages, and those of what was only counted."""
    bodies = [dict(row.record.body or {}) for row in one.rows("exceptions")]
    return [body for body in bodies if "payload_sha256" in body], [body for body in bodies if body["outcome"] == "counted alone"]


def acknowledged(publisher: Publisher, mids: set[int]) -> None:
    """Returns once they all are."""
    publisher.wait(lambda p: p.acknowledged.keys() >= mids)


async def test_junk_without_end_is_counted_and_kept_only_so_much_an_hour(tmp_path: Path) -> None:
    """Each message has its outcome and is acknowledged; the records say how many of which kind there were; an hour later it begins anew."""
    clock = StillClock(AT)
    noise = [random.Random(n).randbytes(KEPT_BYTES_MAX + n) for n in range(SAID)]
    two_gateways(tmp_path)
    async with stand(tmp_path, EndpointSettings(port=0), FLOODED, clock) as one:
        port = one.endpoint.port
        with (
            Publisher(port, login=("mad", "m"), keep_alive_s=0) as mad,
            Publisher(port, login=("sound", "s"), keep_alive_s=0) as sound,
        ):
            for publisher in (mad, sound):
                await publisher.welcomed()
            for n, sent in enumerate(noise):
                mad.publish(TOPIC if n % 2 else "landfall/nowhere", sent)
            await asyncio.to_thread(mad.wait, lambda p: len(p.acknowledged) == SAID)
            kept, counted = told(one)
            assert len(kept) == KEPT
            assert 1 <= len(counted) <= (SAID - KEPT).bit_length()
            assert (SAID - KEPT) / 2 < counted[-1]["messages"] <= SAID - KEPT, "killed now, the log says how many at least"
            told_after_s = SPAN_S if counted[-1]["messages"] < SAID - KEPT else 0.0  # the last may have come with the last word
            clock.advance(SPAN_S)
            await eventually(lambda: told(one)[1][-1]["messages"] == SAID - KEPT)
            last = told(one)[1][-1]
            outcomes = Counter(body["outcome"] for body in kept) + Counter(last["outcomes"])
            assert outcomes == {name: one.counts()[f"intake_{name}"] for name in TWO} == dict.fromkeys(TWO, SAID // 2)
            assert last["payload_bytes"] + sum(body["payload_bytes"] for body in kept) == sum(map(len, noise))
            assert (last["account"], last["at_ms"] - last["since_at_ms"]) == ("login mad", told_after_s * 1_000)
            for publisher, sent in ((mad, b"an hour later"), (sound, b"no reading"), (sound, payload(0))):
                mid = publisher.publish(TOPIC, sent)
                await asyncio.to_thread(acknowledged, publisher, {mid})
            assert [body["payload_bytes"] for body in told(one)[0][KEPT:]] == [len(b"an hour later"), len(b"no reading")]
            assert len(one.rows("containers")) == 1


async def test_beside_junk_another_gateways_mistake_is_kept(tmp_path: Path) -> None:
    two_gateways(tmp_path)
    async with stand(tmp_path, EndpointSettings(port=0), FLOODED) as one:
        for name in ("mad", "sound"):
            with Publisher(one.endpoint.port, login=(name, name[0])) as publisher:
                await publisher.welcomed()
                mids = {publisher.publish(TOPIC, bytes(KEPT_BYTES_MAX) + b"%d" % n) for n in range(SAID if name == "mad" else 1)}
                await asyncio.to_thread(acknowledged, publisher, mids)
        assert len(told(one)[0]) == KEPT + 1


def test_accounts_without_end_are_kept_no_more_of_than_all_may_have() -> None:
    refusals, message = Refusals("ship", 10 * RECORD_BYTES), Publish(b"t", b"")
    kept = sum(refusals.keeps(f"at {n}", message, Outcome.MALFORMED, 0.0, AT) for n in range(100_000))
    assert kept == 10 * ALL_TIMES
    records = refusals.news(0.0, AT)
    assert len(records) <= ACCOUNTS_MAX + 1
    assert sum((record.body or {})["messages"] for record in records) == 100_000 - kept
    assert refusals.news(0.0, AT) == []
    assert not refusals.news(SPAN_S, AT), "what was told is not told again"
    assert refusals.keeps("at 1", message, Outcome.MALFORMED, SPAN_S, AT), "and its hour is over"
