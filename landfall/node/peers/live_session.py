"""One session of a node under way, with its wire: what it carried, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from landfall.node.peers.session_runner import Drive
from landfall.node.peers.traffic import Passed
from landfall.transport.websocket import Wire
from streams.config.roles import LinkClass, LinkPolicy


@dataclass(frozen=True, slots=True)
class Live:
    """A session, what its link carries, which side dialled, and its wire."""

    drive: Drive
    policy: LinkPolicy
    dialled_here: bool
    wire: Wire

    @property
    def link(self) -> LinkClass:
        """Class of its link."""
        return self.policy.link_class

    def passed(self) -> Passed:
        """Return what has passed the session so far."""
        return self.link, self.wire.sent_bytes, self.wire.received_bytes

    def summary(self) -> str:
        """Return how the session ended, and what it carried, in a line for the log."""
        session, wire = self.drive.session, self.wire
        sent, received, up_to = session.sender.sent_records, session.receiver.received_records, session.sender.sent_up_to() or "nothing"
        return (
            f"{self.drive.end.sentence}; sent {sent:,} records up to {up_to}, received {received:,}; "
            f"{wire.sent_bytes:,} bytes out, {wire.received_bytes:,} in"
        )

    def status(self, now_s: float) -> dict[str, Any]:
        """Return the class of link, round trip in ms, bytes and records each way, and records the peer still lacks; `now_s`: monotonic
        seconds.
        """
        session, wire, rtt_s = self.drive.session, self.wire, self.drive.session.liveness.rtt_s
        return {
            "link": self.link,
            "open": session.open,
            "rtt_ms": None if rtt_s is None else round(rtt_s * 1000, 1),
            "sent_bytes": wire.sent_bytes,
            "received_bytes": wire.received_bytes,
            "sent_records": session.sender.sent_records,
            "received_records": session.receiver.received_records,
            "resumed_bytes": session.sender.resumed_bytes,
            "unacknowledged_records": session.sender.unacknowledged_records(),
            "backlog_records": session.sender.backlog_records(now_s),
        }
