"""The pure core of replicated telemetry streams: words, policies, the log's port and the sync session, without I/O."""
