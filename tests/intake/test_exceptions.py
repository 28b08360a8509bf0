"""Goal: of what can not be read `exceptions` keep the beginning and what proves the rest; what can is kept whole."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
from pathlib import Path

import pytest
from pydantic import ValidationError

from intake.arrivals import KEPT_BYTES_MAX
from intake.settings import TAKEN_BYTES_MAX, BrokerSettings, EndpointSettings
from tests.intake.stand import TOPIC, Publisher, payload, stand


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


def test_no_setting_takes_what_a_block_could_not_hold() -> None:
    with pytest.raises(ValidationError):
        EndpointSettings(packet_bytes_max=TAKEN_BYTES_MAX + 1)
    with pytest.raises(ValidationError):
        BrokerSettings(client_id="ship", payload_bytes_max=TAKEN_BYTES_MAX + 1)
