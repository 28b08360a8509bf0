"""A stock Kafka consumer: `python -m deploy.containers.reader BROKERS USERNAME TOPIC...`, its password on standard input.

Prints a line of JSON for each message, `{"topic", "key", "value"}`, and for each Kafka topic it may not read, `{"topic", "error"}`; ends
when everything that was there is read.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer, KafkaError

SILENT_S = 8.0
"""Silence after which everything that was there counts as read, seconds."""


def main() -> None:
    """Subscribe, as any consumer does, and print."""
    brokers, username, *topics = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": username,
            "sasl.password": sys.stdin.readline().strip(),
            "group.id": f"{username}.look.{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(topics)
    refused: set[str] = set()
    heard_s = time.monotonic()
    while time.monotonic() - heard_s < SILENT_S:
        message = consumer.poll(0.5)
        if message is None:
            continue
        topic, problem = message.topic() or "", message.error()
        if problem is None:
            heard_s = time.monotonic()
            key, value = (message.key() or b"").decode(), json.loads(message.value() or b"null")
            print(json.dumps({"topic": topic, "key": key, "value": value}))
        elif problem.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            sys.exit(f"Kafka: {problem.str()}")
        elif topic not in refused:
            refused.add(topic)
            print(json.dumps({"topic": topic, "error": problem.name()}))
    consumer.close()


if __name__ == "__main__":
    main()
