"""Work in the background of a node: upkeep, retention, audit, signing, telemetry."""
