"""The frame of every process: settings, health, clock, metrics and failures."""
