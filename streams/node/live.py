"""One session of a node under way, with its wire: what it carried, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streams.link.wire import Wire
from streams.node.driving import Drive
from streams.node.traffic import Passed
from streams.policy import LinkClass, LinkPolicy


@dataclass(frozen=True, slots=True)
class Live:
    """A session, what its link carries, who dialled, and its wire."""

    drive: Drive
    policy: LinkPolicy
    dialled_here: bool
    wire: Wire

    @property
    def link(self) -> LinkClass:
        """The class of its link."""
        return self.policy.link_class

    def passed(self) -> Passed:
        """What has passed it so far."""
        return self.link, self.wire.sent_bytes, self.wire.received_bytes

    def status(self, now_s: float) -> dict[str, Any]:
        """Class of link, round trip in ms, bytes and records each way, records the peer still lacks; `now_s`: monotone seconds."""
        session, wire = self.drive.session, self.wire
        return {
            "link": self.link,
            "open": session.open,
            "rtt_ms": None if session.rtt_s is None else round(session.rtt_s * 1000, 1),
            "sent_bytes": wire.sent_bytes,
            "received_bytes": wire.received_bytes,
            "sent_records": session.sender.sent_records,
            "received_records": session.receiver.received_records,
            "resumed_bytes": session.sender.resumed_bytes,
            "unacknowledged_records": session.sender.unacknowledged_records(),
            "backlog_records": session.sender.backlog_records(now_s),
        }
