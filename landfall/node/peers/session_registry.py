"""One session per peer: which of several sessions that are opened with the same peer stays.

A session that comes next to another counts once the peer has sent a Hello for this very link: a replay ends no session. A session of the
same process of the peer then takes the other's place. A session of another process waits: the peer of the standing session is pinged. Where
it answers, the newcomer is refused. Where it does not, that session ends within its link's dead time, and the newcomer gets its place.
"""

from __future__ import annotations

from landfall.node.peers.duplicate_nodes import Twins
from landfall.node.peers.live_session import Live
from streams.replication.sync_messages import NODE_NAME_TWICE, Refuse

_NEWER = Refuse("a newer session has taken its place", code="session_replaced")
_CROSSED = Refuse("both ends dialled at once: the other link stays", code="links_crossed")
_TWICE = (
    "another process of '{}' has a session here from {} and answers in it, so the one from {} is refused; "
    "stop one of the two, or give it a name of its own"
)


class SessionRegistry:
    """The sessions of one node by their peers' names. `live` are those in their place. `coming` are those whose peer has yet to greet.
    `waiting` are those of another process than the one in the place, which is being asked whether it is still there.
    """

    def __init__(self, node: str, twins: Twins) -> None:
        """Make an empty registry. `node`: this node's name. `twins` is notified of refused processes."""
        self._node, self._twins = node, twins
        self.live: dict[str, Live] = {}
        self.coming: dict[str, Live] = {}
        self.waiting: dict[str, Live] = {}

    def expect(self, name: str) -> None:
        """Prepare for one more session with `name`: half-received blocks are kept, so that it continues with them."""
        if live := self.live.get(name):
            live.drive.session.receiver.keep_halves()

    def come(self, name: str, live: Live) -> None:
        """Add a session that has been opened: it gets its place, or comes next to the session that has it."""
        if name not in self.live:
            self.live[name] = live
            return
        if earlier := self.coming.get(name):
            earlier.drive.close(_NEWER)
        self.coming[name] = live

    def heard(self, name: str, live: Live) -> None:
        """Handle a message that the peer has sent in this session. Call it after each message."""
        if self.live.get(name) is live:
            if not live.drive.session.liveness.asked and (newcomer := self.waiting.pop(name, None)):
                self._refuse(name, live, newcomer)
        elif self.coming.get(name) is live and live.drive.session.greeted:
            del self.coming[name]
            self._greeted(name, live)

    def end(self, name: str, refusal: Refuse, only_dialled: bool = False) -> None:
        """End all sessions with `name`, or only those that were dialled here; `refusal` goes to the peer."""
        for sessions in (self.waiting, self.coming, self.live):
            live = sessions.get(name)
            if live and (live.dialled_here or not only_dialled):
                del sessions[name]
                live.drive.close(refusal)
        self._let_in(name)

    def left(self, name: str, live: Live) -> None:
        """Remove a session that is over."""
        for sessions in (self.live, self.coming, self.waiting):
            if sessions.get(name) is live:
                del sessions[name]
        self._let_in(name)

    def names(self) -> list[str]:
        """Return the peers with which there is any session, in its place or not yet."""
        return sorted({*self.live, *self.newcomers()})

    def newcomers(self) -> set[str]:
        """Return the peers with a session that does not have its place yet."""
        return {*self.coming, *self.waiting}

    def _greeted(self, name: str, newcomer: Live) -> None:
        """Handle the greeting in a session that came next to another, or to one that has ended since."""
        standing = self.live.get(name)
        if standing is None or standing.drive.session.closed:
            self.live[name] = newcomer
        elif _of_two_processes(standing, newcomer):
            if earlier := self.waiting.get(name):
                earlier.drive.close(_NEWER)
            self.waiting[name] = newcomer
            newcomer.drive.hold()
            standing.drive.ask()
        elif standing.dialled_here != newcomer.dialled_here and standing.dialled_here == (self._node < name):
            newcomer.drive.close(_CROSSED)  # what the smaller name dialled stays: both ends decide alike
        else:
            self.live[name] = newcomer
            standing.drive.close(_NEWER)
            if other := self.waiting.pop(name, None):
                self._refuse(name, newcomer, other)  # the process that it waits to replace has just come again

    def _refuse(self, name: str, standing: Live, newcomer: Live) -> None:
        addresses = [standing.wire.endpoint, newcomer.wire.endpoint]
        newcomer.drive.close(Refuse(_TWICE.format(name, *addresses), code=NODE_NAME_TWICE, addresses=addresses))
        self._twins.refused(name, *addresses)

    def _let_in(self, name: str) -> None:
        """Give the place of `name`, where no session has it, to a newcomer that waits for it."""
        if name not in self.live and (newcomer := self.waiting.pop(name, None)):
            self.live[name] = newcomer
            newcomer.drive.go_on()


def _of_two_processes(standing: Live, newcomer: Live) -> bool:
    """Return whether the two sessions are known to be of two processes of the peer. A release that names no process counts as the same."""
    one, other = standing.drive.session, newcomer.drive.session
    return one.greeted and bool(one.instance) and bool(other.instance) and one.instance != other.instance
