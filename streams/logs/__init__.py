"""Logs that keep a node's streams: in files (`streams.logs.files`) and in Kafka (`streams.logs.kafka.log`).

Both implement the port `streams.log.Log`.
"""
