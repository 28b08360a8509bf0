"""One session per peer: which of several that are opened with the same one stays.

A session that comes beside another takes its place once the peer has said a Hello for this very link: what is played back ends no session.
"""

from __future__ import annotations

from streams.node.live import Live


class Places:
    """The sessions of one node by their peers' names. `live` are those in their place, `coming` those whose peer has yet to greet."""

    def __init__(self, node: str) -> None:
        """`node`: this one's name."""
        self._node = node
        self.live: dict[str, Live] = {}
        self.coming: dict[str, Live] = {}

    def may_come(self, name: str, dialled_here: bool) -> bool:
        """Whether one more session with `name` may be opened: the newer replaces the older, but when both have dialled at once, what the
        smaller name dialled stays. What has come so far of half blocks is kept then, for the newer to go on with.
        """
        live = self.live.get(name)
        if live is None:
            return True
        live.drive.session.receiver.keep_halves()
        return live.dialled_here == dialled_here or dialled_here == (self._node < name)

    def come(self, name: str, live: Live) -> None:
        """A session has been opened: it has its place, or comes beside the one that has."""
        if name not in self.live:
            self.live[name] = live
            return
        if earlier := self.coming.get(name):
            earlier.drive.close(_NEWER)
        self.coming[name] = live

    def heard(self, name: str, live: Live) -> None:
        """The peer has said something in this session: if it was its Hello, it has its place from now on."""
        if self.coming.get(name) is live and live.drive.session.greeted:
            del self.coming[name]
            if before := self.live.pop(name, None):
                before.drive.close(_NEWER)
            self.live[name] = live

    def end(self, name: str, sentence: str, only_dialled: bool = False) -> None:
        """End what there is with `name`, or what of it was dialled here."""
        for sessions in (self.live, self.coming):
            live = sessions.get(name)
            if live and (live.dialled_here or not only_dialled):
                del sessions[name]
                live.drive.close(sentence)

    def left(self, name: str, live: Live) -> None:
        """This session is over."""
        for sessions in (self.live, self.coming):
            if sessions.get(name) is live:
                del sessions[name]

    def names(self) -> list[str]:
        """With whom there is any session, in its place or coming."""
        return sorted({*self.live, *self.coming})


_NEWER = "a newer session has taken its place"
