"""Logs: what keeps a node's streams. Its own files (`streams.logs.files`); each behind the Log port of `streams.log`."""
