"""Which stream goes to which Kafka topic, and what a reader's patterns of streams mean there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streams.config.companion_streams import parent_of
from streams.model.identifiers import check_stream

FANNED_OUT = ("alerts", "events", "ships", "containers")
"""Streams with a Kafka topic of their own, in the order in which they are read: alerts wait for nobody."""
CUSTOMERS = "customers/"
POSITIONS = "landfall.positions"
"""The Kafka topic that holds how far each stream is fanned out; compacted, written in the same transactions as the messages."""


@dataclass(frozen=True, slots=True)
class TopicRight:
    """The Kafka topics a reader may read: one, or all whose names begin so."""

    topic: str
    prefix: bool


def is_fanned_out(stream: str) -> bool:
    """Return whether `stream` has a Kafka topic. A stream that is derived of another has none."""
    return stream in FANNED_OUT or (stream.startswith(CUSTOMERS) and parent_of(stream) == stream)


def route(streams: Iterable[str]) -> list[str]:
    """Return those of `streams` that are fanned out, in the order in which they are read."""
    named = sorted(stream for stream in streams if is_fanned_out(stream))
    return [*(stream for stream in FANNED_OUT if stream in named), *(stream for stream in named if stream.startswith(CUSTOMERS))]


def kafka_topic(stream: str) -> str:
    """Return the Kafka topic of a stream: `landfall.alerts`, `landfall.customers.duckworks`."""
    return f"landfall.{stream.replace('/', '.')}"


def check_pattern(pattern: str) -> str:
    """Return `pattern` itself when it names one stream that is fanned out, or `customers/*`. Raises ValueError otherwise."""
    if pattern != f"{CUSTOMERS}*" and not is_fanned_out(check_stream(pattern)):
        raise ValueError(f"{pattern!r} is not fanned out; there are {', '.join(FANNED_OUT)}, {CUSTOMERS}<id> and {CUSTOMERS}*")
    return pattern


def right_to(pattern: str) -> TopicRight:
    """Return the Kafka right that a pattern of streams stands for."""
    if pattern.endswith("*"):
        return TopicRight(kafka_topic(pattern.removesuffix("*")), prefix=True)
    return TopicRight(kafka_topic(pattern), prefix=False)
