"""Goal: what was taken in and can not be read is in `exceptions` with all its bytes, however long it may be."""

from __future__ import annotations

import asyncio
import base64
import random
from pathlib import Path

import pytest
from pydantic import ValidationError

from intake.settings import TAKEN_BYTES_MAX, BrokerSettings, EndpointSettings
from tests.intake.stand import TOPIC, Publisher, payload, stand


async def test_the_longest_payload_that_can_be_taken_is_kept_whole_when_nothing_of_it_can_be_read(tmp_path: Path) -> None:
    """At the highest limit that settings allow, of bytes that do not compress."""
    noise = random.Random(1).randbytes(TAKEN_BYTES_MAX - 2_000)
    settings = EndpointSettings(port=0, anonymous_publish=("landfall/#",), packet_bytes_max=TAKEN_BYTES_MAX)
    async with stand(tmp_path, settings) as one:
        with Publisher(one.endpoint.port) as publisher:
            await publisher.welcomed()
            mids = {publisher.publish(TOPIC, sent) for sent in (payload(0), noise, payload(1))}
            await asyncio.to_thread(publisher.wait, lambda p: p.acknowledged.keys() >= mids)
        assert len(one.rows("containers")) == 2
        (row,) = one.rows("exceptions")
        body = row.record.body or {}
        assert (body["outcome"], body["payload_bytes"]) == ("malformed", len(noise))
        assert base64.b64decode(body["payload_base64"]) == noise


def test_no_setting_takes_what_a_block_could_not_hold() -> None:
    with pytest.raises(ValidationError):
        EndpointSettings(packet_bytes_max=TAKEN_BYTES_MAX + 1)
    with pytest.raises(ValidationError):
        BrokerSettings(client_id="ship", payload_bytes_max=TAKEN_BYTES_MAX + 1)
