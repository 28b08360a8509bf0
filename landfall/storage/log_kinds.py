"""Opening a log or a log's reader, of whichever kind it is.

A Kafka client is imported only for a log that is in Kafka: it would be a quarter of what each of Spark's Python processes imports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from landfall.storage.damage import Damage
from landfall.storage.file_blocks import FileLogReader
from landfall.storage.file_log import FileLog, FileLogOptions
from landfall.storage.kafka.topic_names import WHERE
from landfall.storage.log_view import PassedOver
from landfall.storage.segments import unreadable
from landfall.system.shared_folders import let_group_through
from streams.integrity.record_authorization import Entitled
from streams.model.block import Codec
from streams.model.clock import Clock
from streams.model.errors import Misuse

if TYPE_CHECKING:
    from landfall.storage.kafka.kafka_log import KafkaLog
    from landfall.storage.kafka.kafka_reader import KafkaLogReader
    from landfall.storage.kafka.settings import FileLogSettings, KafkaLogSettings

AnyLog: TypeAlias = "FileLog | KafkaLog"
AnyReader: TypeAlias = "FileLogReader | KafkaLogReader"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options with which a node opens its log.

    `on_damage` is called for stored bytes that do not verify. A log that waits for its turn to be opened stops waiting once `stopping` is
    set. `entitled` decides who may write which records.
    """

    on_damage: Callable[[Damage], None]
    stopping: threading.Event
    entitled: Entitled


def open_log(
    settings: FileLogSettings | KafkaLogSettings, home: Path, node: str, codec: Codec, clock: Clock, options: LogOptions
) -> AnyLog:
    """Open the log of `node`, for its one writing process. The log is in `home`/log, or its index is there and the rest in Kafka. Its
    marker is next to it.

    Raises what FileLog and KafkaLog raise, and Misuse when the folder holds a log of the other kind.
    """
    folder, marker = home / "log", home / "marker"
    if settings.group:
        home.mkdir(parents=True, exist_ok=True)
        let_group_through(home, settings.group)
    if settings.kind == "kafka":
        from landfall.storage.kafka.commit_transaction import KafkaLogOptions, KafkaLogPlace
        from landfall.storage.kafka.kafka_log import KafkaLog

        named = settings.model_copy(update={"prefix": settings.prefix or f"log-{node}"})
        kafka_options = KafkaLogOptions(options.on_damage, options.stopping, entitled=options.entitled)
        return KafkaLog(KafkaLogPlace(named, node, folder, marker), codec, clock, kafka_options)
    if in_kafka(folder):
        raise Misuse(
            f"{folder} is the index of a log in Kafka",
            hint="set the node's log to kind kafka again, or give it another folder",
            code="log_in_kafka",
        )
    file_options = FileLogOptions(on_damage=options.on_damage, group=settings.group, entitled=options.entitled)
    return FileLog(folder, marker, node, codec, clock, file_options)


def open_reader(folder: Path, codec: Codec, passed_over: PassedOver | None = None, entitled: Entitled | None = None) -> AnyReader:
    """Return a reader of the log in `folder`, from any process; `passed_over` and `entitled` are as for IndexedReader.

    Raises FileNotFoundError where there is no log.
    """
    if not in_kafka(folder):
        with ExitStack() as unused:
            reader = unused.enter_context(closing(FileLogReader(folder, codec, passed_over=passed_over, entitled=entitled)))
            if not in_kafka(folder):  # which a log in a Kafka says before it has an index
                unused.pop_all()
                return reader
    from landfall.storage.kafka.kafka_reader import KafkaLogReader

    return KafkaLogReader(folder, codec, passed_over, entitled)


def in_kafka(folder: Path) -> bool:
    """Return whether the log in `folder` is in Kafka, with only its index in the folder. Raises Unreadable where the folder can not be
    read.
    """
    try:
        return (folder / WHERE).exists()
    except OSError as problem:
        raise unreadable(folder, problem) from problem
