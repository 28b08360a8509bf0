"""How long nobody writes a log in a Kafka when its writer dies: from SIGKILL to the standby's first acknowledged append.

`python -m bench.standby [times]`. Prints one JSON object. One development broker on this machine; the writer commits 100 readings at a time
without a pause until it is killed, the standby has a disk of its own and has caught up by then. Each time is another log.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from bench.machine import machine
from bench.peers import Broker, until
from bench.readings import fleet_readings
from bench.results import Measured, write
from landfall.storage.index import INDEX_NAME
from landfall.storage.kafka.commit_transaction import FOLLOW_EVERY_S, KafkaLogOptions, KafkaLogPlace
from landfall.storage.kafka.kafka_log import KafkaLog
from landfall.storage.kafka.settings import KafkaLogSettings
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import WallClock

LIVE_ROWS = 100
ANSWER_S_MAX = 120.0


def place(broker: Broker, folder: Path, prefix: str) -> KafkaLogPlace:
    """One process's part in the log `prefix`: its folder is its own."""
    access = broker.access
    fields = {"brokers": access.brokers, "username": access.username, "password": access.password, "prefix": prefix}
    settings = KafkaLogSettings.model_validate({"kind": "kafka", "replication": 1, "min_insync": 1, **fields})
    return KafkaLogPlace(settings, "hq", folder / "log", folder / "marker")


def append(where: KafkaLogPlace, said: Connection, *, for_ever: bool) -> None:
    """Opens the log, when its turn comes, appends, and says when that was acknowledged."""
    log = KafkaLog(where, BlockCodec(), WallClock(), KafkaLogOptions())
    readings = Append("containers", fleet_readings(LIVE_ROWS, 1))
    log.append([readings])
    said.send(time.monotonic())
    while for_ever:
        log.append([readings])
    log.close()


def taken_over_s(broker: Broker, folder: Path) -> float:
    """Seconds from the writer's death to the standby's first append."""
    spawn = multiprocessing.get_context("spawn")
    processes, ears = [], []
    for name, for_ever in (("writer", True), ("standby", False)):
        ear, mouth = spawn.Pipe(duplex=False)
        where = place(broker, folder / name, f"log-{folder.name}")
        process = spawn.Process(target=append, args=(where, mouth), kwargs={"for_ever": for_ever})
        process.start()
        processes.append(process)
        ears.append(ear)
        if for_ever and not ear.poll(ANSWER_S_MAX):
            raise TimeoutError("the writer does not write")
    until((folder / "standby" / "log" / INDEX_NAME).exists, "the standby's index")
    time.sleep(3 * FOLLOW_EVERY_S)
    if ears[1].poll():
        raise AssertionError("the standby did not stand by")
    processes[0].kill()
    killed_at_s = time.monotonic()
    if not ears[1].poll(ANSWER_S_MAX):
        raise TimeoutError("the standby did not take over")
    took_s: float = ears[1].recv() - killed_at_s
    for process in processes:
        process.join()
    return round(took_s, 2)


def main() -> None:
    """Measures and prints."""
    times = int(sys.argv[1]) if sys.argv[1:] else 5
    with tempfile.TemporaryDirectory(prefix="bench-standby-") as name:
        broker = Broker(Path(name))
        broker.start()
        try:
            took_s = [taken_over_s(broker, Path(name) / str(number)) for number in range(times)]
        finally:
            broker.kill()
    print(json.dumps({"bench": "standby", "machine": machine(), "taken_over_s": took_s}, indent=2))
    write("standby", {"takeover": Measured(f"{', '.join(map(str, sorted(took_s)))} s", max(took_s) <= 10)})


if __name__ == "__main__":
    main()
