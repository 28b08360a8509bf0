"""The port behind which payloads of others are understood: a function from a message's bytes to messages of our own form.

What a decoder gives goes the way that every sensor's message goes: the same routes, checks, flags and repeats. So it need not check values:
what can not be true is refused and kept as always. A decoder is chosen by MQTT topic in the settings (`intake.pipeline.decoders`), by the
name of one that comes along (`intake/decoders/decoder_names.py`) or as `module:function` of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

MESSAGES_MAX = 1_000
"""Readings in one message of others."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The content of a message: messages of our own form, each an MQTT topic and a JSON payload (docs/guide/payloads.md). `problem` says in
    a sentence what could not be decoded; the messages are taken all the same, and the original goes to `exceptions`."""

    messages: Sequence[tuple[bytes, bytes]]
    problem: str = ""


Decoder = Callable[[bytes], Decoded]
"""From the payload of one MQTT message. The same bytes give the same, so that a repeat is known as one. No I/O. Whatever
it raises but KeyboardInterrupt, the message is `malformed`, with its bytes in `exceptions`."""


def reading_of(container: str, fields: dict[str, object]) -> tuple[bytes, bytes]:
    """Return our message for a reading of a container; `fields`: `device`, `at`, signals and whatever is to be kept in addition."""
    return f"landfall/containers/{container}/reading".encode(), orjson.dumps(fields)


def name_of(decode: Decoder) -> str:
    """The module and the name of a decoder."""
    return f"{getattr(decode, '__module__', '')}:{getattr(decode, '__qualname__', type(decode).__name__)}"


class OthersFault(Exception):
    """An operator's own code has raised something."""


def call_others(call: Callable[[], object]) -> object:
    """Return what `call`, an operator's own code, returns. Raises OthersFault for whatever it raises, SystemExit, GeneratorExit and
    CancelledError too, but KeyboardInterrupt, which is the operator's."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        raise OthersFault(str(problem) or type(problem).__name__) from problem


def decoded(decode: Decoder, payload: bytes) -> Decoded:
    """What `decode` makes of a payload; of one that it does not understand, or where that gives no Decoded, no messages and the reason."""
    try:
        made = call_others(lambda: decode(payload))
    except OthersFault as problem:
        return Decoded((), f"decoder {name_of(decode)} does not read it: {problem}")
    if not isinstance(made, Decoded):
        return Decoded((), f"decoder {name_of(decode)} gives a {type(made).__name__}, and no Decoded")
    if len(made.messages) > MESSAGES_MAX:
        return Decoded((), f"{len(made.messages):,} readings in one message, more than {MESSAGES_MAX:,}")
    return made if made.messages or made.problem else Decoded((), "there is no reading in it")
