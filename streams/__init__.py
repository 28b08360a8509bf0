"""Replicated telemetry streams: their records and settings, the log port, sync, proof and storage.

`streams.replication` is the sync protocol without I/O. `landfall.storage` keeps logs in files and in Kafka, `landfall.transport` has the
connections between nodes, `landfall.node` is the running node.
"""
