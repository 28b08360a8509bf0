"""A Kafka broker's jars, checked against `deploy/kafka/jars.lock`: the tests and the containers run one, a demo on one machine does not.

`python -m deploy.setup.kafka` fetches what is missing; `--lock` looks up again which jars the broker asks for and writes the lock file.
"""

from __future__ import annotations

import argparse
import sys

from deploy.setup import jars
from hq.java import KAFKA_LOCK, locked_kafka_jars
from streams.model.errors import LandfallError

WHAT = "Kafka's jars"
MODULES = (("org.apache.kafka", "kafka_2.13", "4.3.1"), ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"))
"""Broker, and the library with which it writes its log: it requires that itself only in its own distribution."""
LOCK_HEADER = """\
# A Kafka broker and everything that it asks for. Made by `make lock`.
"""


def main() -> int:
    """Fetch what is missing, or write the lock; 0 when done."""
    parser = argparse.ArgumentParser(prog="python -m deploy.setup.kafka", description=__doc__)
    parser.add_argument("--lock", action="store_true", help="look up the broker's jars again and write the lock file")
    try:
        if parser.parse_args().lock:
            jars.write_lock(KAFKA_LOCK, LOCK_HEADER, MODULES, WHAT)
        else:
            jars.make_ready(locked_kafka_jars(), WHAT)
    except LandfallError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
