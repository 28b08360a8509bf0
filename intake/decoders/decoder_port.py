"""The interface of decoders for foreign payloads: a function from a message's bytes to messages of our own form.

The decoded messages take the same path as every sensor's message: the same routes, checks, flags and repeats. So a decoder need not check
values: a value that can not be true is refused and kept as always. The settings choose a decoder by MQTT topic
(`intake.pipeline.decoders`): by the name of a built-in one (`intake/decoders/decoder_names.py`), or as `module:function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

MESSAGES_MAX = 1_000
"""Maximum number of readings in one foreign message."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Content of a message: messages of our own form, each an MQTT topic and a JSON payload (docs/guide/payloads.md).

    `problem` describes in a sentence what could not be decoded. The messages are accepted all the same, and the original goes to
    `exceptions`."""

    messages: Sequence[tuple[bytes, bytes]]
    problem: str = ""


Decoder = Callable[[bytes], Decoded]
"""Function from the payload of one MQTT message to its content, without I/O.

The same bytes give the same content, so that a repeat is recognised. If it raises anything but KeyboardInterrupt, the message is
`malformed`, with its bytes in `exceptions`."""


def reading_of(container: str, fields: dict[str, object]) -> tuple[bytes, bytes]:
    """Return our message for a reading of a container; `fields`: `device`, `at`, signals and whatever is to be kept in addition."""
    return f"landfall/containers/{container}/reading".encode(), orjson.dumps(fields)


def name_of(decode: Decoder) -> str:
    """Return the module and the name of a decoder."""
    return f"{getattr(decode, '__module__', '')}:{getattr(decode, '__qualname__', type(decode).__name__)}"


class OthersFault(Exception):
    """Error raised by an operator's own code."""


def call_others(call: Callable[[], object]) -> object:
    """Return the result of `call`, an operator's own code.

    Raises OthersFault for whatever it raises, SystemExit, GeneratorExit and CancelledError too, except KeyboardInterrupt, which is the
    operator's."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        raise OthersFault(str(problem) or type(problem).__name__) from problem


def decoded(decode: Decoder, payload: bytes) -> Decoded:
    """Return the content of a payload by `decode`; no messages and the reason where it fails, or returns no Decoded."""
    try:
        made = call_others(lambda: decode(payload))
    except OthersFault as problem:
        return Decoded((), f"decoder {name_of(decode)} does not read it: {problem}")
    if not isinstance(made, Decoded):
        return Decoded((), f"decoder {name_of(decode)} gives a {type(made).__name__}, and no Decoded")
    if len(made.messages) > MESSAGES_MAX:
        return Decoded((), f"{len(made.messages):,} readings in one message, more than {MESSAGES_MAX:,}")
    return made if made.messages or made.problem else Decoded((), "there is no reading in it")
