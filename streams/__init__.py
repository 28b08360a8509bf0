"""Replicated telemetry streams: their records and settings, the log port, sync, proof and storage.

`streams.session` is the sync protocol without I/O. `streams.logs` keeps logs in files and in Kafka, `streams.link` has the connections
between nodes, `streams.node` is the running node.
"""
