"""The commit points at which the kill tests kill each process: one table, so that a test can hold it against the code."""

from __future__ import annotations

KEPT = ("log.written", "log.synced", "log.indexed", "sync.admitted")
"""Of every node."""
SENSED = ("intake.decoded", "intake.durable", "intake.acknowledged", "watch.judged", "watch.durable", "watch.snapshot")
"""Of nodes that take sensors in."""
LEASED = ("lease.written", "lease.synced", "lease.renamed", "lease.durable")
"""Of nodes of which a link has a budget: a ship's."""
FORWARDED = ("forwarding.told", "forwarding.durable")
"""Of headquarters."""
ANSWERED = ("ask.priced", "ask.answered")
"""Of a ship that is asked."""
DIGESTED = ("digest.made", "digest.durable")
"""Of a ship whose readings wait for port."""
TAKEN = ("answers.taken",)
"""Of headquarters, to which she answers."""

NODES = {"ship": (*SENSED, *KEPT), "port": (*SENSED, *KEPT), "headquarters": (*FORWARDED, *KEPT)}
ANALYTICS = (
    "analytics.begun",
    "analytics.history",
    "analytics.requested",
    "analytics.states",
    "analytics.customers",
    "analytics.alerts",
    "analytics.metrics",
    "analytics.hours",
    "analytics.hours_stream",
    "analytics.state",
    "analytics.optimized",
    "analytics.vacuumed",
)
PROJECTOR = ("projector.prepared", "projector.step")
FANOUT = ("fanout.settled", "fanout.topics", "fanout.written", "fanout.committed")
