"""Logs that keep a node's streams: in files (`landfall.storage.file_log`) and in Kafka (`landfall.storage.kafka.kafka_log`).

Both implement the port `streams.log.Log`.
"""
