"""The reader of a log in Kafka: it looks up in the node's index, and fetches from the broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pydantic import SecretStr, TypeAdapter

from landfall.storage.kafka.block_fetcher import Fetcher
from landfall.storage.kafka.settings import KafkaLogSettings
from landfall.storage.kafka.topic_names import WHERE, KafkaTopicNames
from landfall.storage.log_reader import IndexedReader, Moved, Parts
from landfall.storage.log_state import LineKey, Piece
from landfall.storage.log_view import PassedOver
from landfall.storage.topic_filters import TopicQuery
from landfall.system.private_files import read_private, write_private
from streams.integrity.record_authorization import Entitled
from streams.model.block import Codec, ReadBytes
from streams.model.errors import Corrupt, Misuse


class KafkaLogReader(IndexedReader):
    """A reader of a node's log in Kafka, from any process of the machine."""

    def __init__(self, folder: Path, codec: Codec, passed_over: PassedOver | None = None, entitled: Entitled | None = None) -> None:
        """Open the log as IndexedReader does. Raises FileNotFoundError when `folder` belongs to no log in Kafka, or to one that was never
        opened.
        """
        settings = found_settings(folder)
        self._names, self._fetcher = KafkaTopicNames(settings.prefix), Fetcher(settings)
        super().__init__(folder, codec, passed_over=passed_over, entitled=entitled)

    def close(self) -> None:
        """Release files and connections."""
        super().close()
        self._fetcher.close()

    def _bytes(self, key: LineKey, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes | Corrupt]]:
        for piece, data in self._fetcher.fetch(self._names.topic(key[0]), pieces):
            if not isinstance(data, Corrupt) or self._still_there(key, piece):
                yield piece, data

    @contextmanager
    def _parts(self, key: LineKey) -> Iterator[Parts]:
        yield partial(self._part, key)

    def _sifted(self, asked: TopicQuery, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the pieces that may have the topic. Blocks are fetched whole, one at a time: memory might not have space for many."""
        return [piece for piece in pieces if asked.may_be_in(piece)]

    def _part(self, key: LineKey, piece: Piece) -> ReadBytes:
        for _, data in self._bytes(key, [piece]):
            if isinstance(data, Corrupt):
                raise data
            return lambda at, length: data[at : at + length]
        raise Moved(f"{piece.location} is trimmed")

    def _still_there(self, key: LineKey, piece: Piece) -> bool:
        """Return whether the index still lists the piece at its place: it may have been trimmed since it was looked up."""
        return any(other.location == piece.location for other in self._index.pieces(key, piece.first, piece.end))

    def _moved(self, key: LineKey, piece: Piece) -> list[Piece]:
        return []


def found_settings(folder: Path) -> KafkaLogSettings:
    """Return how to reach the log whose index is in `folder`. Raises FileNotFoundError, Misuse."""
    try:
        return TypeAdapter(KafkaLogSettings).validate_json(read_private(folder / WHERE))
    except ValueError as problem:
        raise Misuse(
            f"{folder / WHERE} does not read: {problem}", hint="start the node again: it writes it again", code="position_unreadable"
        ) from problem


def leave_settings(folder: Path, settings: KafkaLogSettings) -> None:
    """Write to `folder` how to reach the log, for its readers."""

    def revealed(value: object) -> object:
        return value.get_secret_value() if isinstance(value, SecretStr) else value

    copied = settings.model_copy(update={})
    fields = {name: revealed(getattr(copied, name)) for name in KafkaLogSettings.model_fields}
    write_private(folder / WHERE, TypeAdapter(dict[str, object]).dump_json(fields))
