"""Replicated telemetry streams: their records and settings, the log port, sync, proof and storage.

The modules of this package and `streams.session` do no network I/O. `streams.logs` keeps logs in files and in Kafka, `streams.link` has the
sockets, `streams.node` is the running node.
"""
