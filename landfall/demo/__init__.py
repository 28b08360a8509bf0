"""The demo: a whole fleet as separate processes on one machine."""
