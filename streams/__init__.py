"""The kernel of replicated telemetry streams: records, blocks, their settings, the codec, the sync protocol, signatures and retention.

It opens no file and no socket. `streams.log` is the interface that every log implements; `landfall.storage` has the implementations.
"""
