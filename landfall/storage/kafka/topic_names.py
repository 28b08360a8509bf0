"""The mapping between a stream and its Kafka topic; and the file that says where Kafka is."""

from __future__ import annotations

from dataclasses import dataclass

from streams.model.errors import Misuse
from streams.model.identifiers import STREAM_PATTERN, check_stream

WHERE = "kafka.json"
"""Name of the file next to the index. It says how the log's own process reaches its Kafka, so that readers of the folder need no settings.
Only its owner may read it.
"""
KAFKA_NAME_CHARS_MAX = 249
_SLASH = "__"
_CONTROL = "_control"


@dataclass(frozen=True, slots=True)
class KafkaTopicNames:
    """The Kafka topics of the log called `prefix`, which holds no dot: all that begin `<prefix>.`.

    A stream's name may hold `.` and `/`, never next to each other. Kafka knows no `/`, and takes `.` and `_` for alike where it compares
    names: two underscores are neither.
    """

    prefix: str

    @property
    def control(self) -> str:
        """Kafka topic of everything that is no block."""
        return f"{self.prefix}.{_CONTROL}"

    def topic(self, stream: str) -> str:
        """Return the Kafka topic of a stream: `containers` → `<prefix>.containers`, `customers/ducks` → `<prefix>.customers__ducks`. Raises
        Misuse when it is too long.
        """
        name = f"{self.prefix}.{check_stream(stream).replace('/', _SLASH)}"
        if len(name) > KAFKA_NAME_CHARS_MAX:
            raise Misuse(
                f"the Kafka topic of stream {stream!r} would be {len(name)} characters long",
                hint="choose a shorter name",
                code="stream_name_long",
            )
        return name

    def stream(self, topic: str) -> str | None:
        """Return the stream in the Kafka topic `topic`; None when it is no stream of this log."""
        mine, _, rest = topic.partition(".")
        name = rest.replace(_SLASH, "/")
        return name if mine == self.prefix and STREAM_PATTERN.fullmatch(name) else None
