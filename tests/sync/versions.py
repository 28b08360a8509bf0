"""Peers of another age: what they say, made of what this version says."""

from __future__ import annotations

from typing import Literal

import msgspec

from streams.replication import sync_messages as m

Age = Literal["now", "next", "strange"]
"""`next`: the version after this one, which shares it and adds a field to every message. `strange`: one that shares none."""
_HELLO = 1


def spoken(data: bytes, age: Age) -> bytes:
    """The message as a node of that age would have written it."""
    if age == "now":
        return data
    if data[1] == _HELLO:
        newest, oldest = (m.PROTOCOL + 1, m.PROTOCOL) if age == "next" else (m.PROTOCOL + 8, m.PROTOCOL + 6)
        hello = m.decode(data)
        assert isinstance(hello, m.Hello)
        data = m.encode(msgspec.structs.replace(hello, protocol=newest, protocol_min=oldest))
    assert 0x90 <= data[0] < 0x9F, "an array of fewer than 15 parts"
    return bytes([data[0] + 1]) + data[1:] + b"\xa5other"
