"""`python -m hq.fanout.rehearsal`: a broker does once what a log in it asks of it, and Java keeps the classes it loaded for that.

Then a broker starts with two thirds of the work. With another Java or other jars it starts all the same. Done at set-up.
"""

from __future__ import annotations

import secrets
import socket
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from pydantic import SecretStr

from hq.fanout.broker import class_path, format_folder, own_access, serving
from hq.fanout.settings import KafkaBrokerSettings, KafkaDoor
from hq.java import KAFKA_CACHE, java_home
from hq.keptclasses import KEPT, keep_classes, kept_classes
from streams.clock import WallClock
from streams.codec import BlockCodec
from streams.errors import RetryLater
from streams.log import Append
from streams.logs.kafka.client import answers
from streams.logs.kafka.keeper import KafkaLogOptions, Place
from streams.logs.kafka.log import KafkaLog
from streams.logs.kafka.settings import KafkaLogSettings
from streams.records import Record, to_batch

NODE, BOX = "rehearsal", "MSKU1234565"
WITHIN_S = 60.0
POLL_S = 0.1


def main() -> int:
    """The classes are kept, or it is said that this Java keeps none; those of another Java are gone; 0. Raises RetryLater."""
    java = java_home()
    for earlier in KAFKA_CACHE.glob(KEPT):
        earlier.unlink()
    classes = kept_classes(KAFKA_CACHE, java)
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "names"
        rehearse(Path(folder), names)
        kept = keep_classes(classes, java, names, class_path())
    print(f"kept: {classes}" if kept else "this Java keeps no classes: a broker starts slower", flush=True)
    return 0


def rehearse(folder: Path, names: Path) -> None:
    """A broker is started, a log opened in it twice and appended to; what the broker loaded for that is listed in `names`."""
    settings = _settings(folder / "broker")
    format_folder(settings)
    with serving(settings, f"-XX:DumpLoadedClassList={names}"):
        access = own_access(settings)
        deadline_s = time.monotonic() + WITHIN_S
        while not answers(access):
            if time.monotonic() > deadline_s:
                raise RetryLater(f"the broker did not answer within {WITHIN_S:.0f} s", hint="its words are above")
            time.sleep(POLL_S)
        told = KafkaLogSettings(kind="kafka", **access.model_dump(), replication=1, min_insync=1, prefix=NODE)
        where = Place(told, NODE, folder / "log", folder / "marker")
        for _ in range(2):
            with closing(KafkaLog(where, BlockCodec(), WallClock(), KafkaLogOptions())) as log:
                log.append([Append("containers", to_batch([Record(BOX, "TRK", 0, {"return_c": 4.2})]))])


def _settings(folder: Path) -> KafkaBrokerSettings:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    port, broker_port, controller_port = (probe.getsockname()[1] for probe in probes)
    for probe in probes:
        probe.close()
    return KafkaBrokerSettings(
        folder=folder,
        password=SecretStr(secrets.token_urlsafe(24)),
        doors=(KafkaDoor(host="127.0.0.1", port=port, advertised=f"127.0.0.1:{port}"),),
        broker_port=broker_port,
        controller_port=controller_port,
        heap_mb=256,
    )


if __name__ == "__main__":
    sys.exit(main())
