"""Ways to a real Kafka on which something happens to what goes over them."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import partial

PRODUCE, INIT_PRODUCER_ID = 0, 22
ERROR, NONE = slice(9, 11), b"\0\0"
"""Where InitProducerId's answer has its error, behind number, tags and throttle; and that there is none."""
HELD_S = 3.0
HELD_S_MAX = 60.0


class Way:
    """Everything passes, to and fro, and every client is led back to this way."""

    def __init__(self, broker: str, own_port: int = 0) -> None:
        """`own_port`: where an earlier way was, which is closed."""
        host, port = broker.split(":")
        self._broker = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", own_port))
        self.port: int = self._listening.getsockname()[1]
        self._there, self._here = (host.encode() + one.to_bytes(4, "big") for one in (int(port), self.port))
        self.address = f"{host}:{self.port}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def request(self, request: bytes, marked: set[bytes]) -> bytes:
        """What the broker is asked instead: what is asked, its version and its number stand first. `marked` is this connection's own."""
        return request

    def answer(self, answer: bytes, marked: set[bytes]) -> bytes:
        """What the client is told instead: the request's number stands first."""
        return answer

    def close(self) -> None:
        """Whoever is on it loses the connection."""
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                broker = socket.create_connection(self._broker)
                self._open += [client, broker]
                marked: set[bytes] = set()
                threading.Thread(target=self._ask, args=(client, broker, marked), daemon=True).start()
                threading.Thread(target=self._tell, args=(broker, client, marked), daemon=True).start()

    def _ask(self, client: socket.socket, broker: socket.socket, marked: set[bytes]) -> None:
        while (request := _frame(client)) is not None:
            _send(broker, self.request(request, marked))

    def _tell(self, broker: socket.socket, client: socket.socket, marked: set[bytes]) -> None:
        while (answer := _frame(broker)) is not None:
            _send(client, self.answer(answer, marked).replace(self._there, self._here))


class RefusingWay(Way):
    """A broker does not know a new topic for as many Produce requests as a test likes.

    The next `refused_left` Produce requests to `topic` are asked of the broker under a name that it does not know, so that it refuses them
    itself, as one does that does not lead the topic yet. The client hears of it once it has sent one more, if it does so unanswered.
    """

    def __init__(self, broker: str, topic: str, refused_left: int) -> None:
        self._topic, self._unknown = topic.encode(), topic[:-1].encode() + b"-"
        self.refused_left = refused_left
        self._followed = threading.Event()
        super().__init__(broker)

    def request(self, request: bytes, marked: set[bytes]) -> bytes:
        if int.from_bytes(request[:2], "big") != PRODUCE or self._topic not in request:
            return request
        if not self.refused_left:
            self._followed.set()
            return request
        self.refused_left -= 1
        marked.add(request[4:8])
        return request.replace(self._topic, self._unknown, 1)

    def answer(self, answer: bytes, marked: set[bytes]) -> bytes:
        if answer[:4] not in marked:
            return answer
        marked.remove(answer[:4])
        self._followed.wait(HELD_S)
        return answer.replace(self._unknown, self._topic, 1)


class LateWay(Way):
    """A broker gets the first InitProducerId no sooner than it is let through, whether or not the client still waits for it then."""

    def __init__(self, broker: str) -> None:
        self._first = threading.Lock()
        self._through = threading.Event()
        self._done = threading.Event()
        super().__init__(broker)

    @property
    def holds(self) -> bool:
        """Whether there was one, which waits until it is let through."""
        return self._first.locked()

    def let_through(self) -> None:
        """Returns once the broker has answered it."""
        self._through.set()
        assert self._done.wait(HELD_S_MAX), "the broker's answer"

    def _ask(self, client: socket.socket, broker: socket.socket, marked: set[bytes]) -> None:
        while (request := _frame(client)) is not None:
            if int.from_bytes(request[:2], "big") == INIT_PRODUCER_ID and self._first.acquire(blocking=False):
                marked.add(request[4:8])
                self._again = partial(_send, broker, request)
                self._through.wait()
            _send(broker, request)

    def answer(self, answer: bytes, marked: set[bytes]) -> bytes:
        if answer[:4] in marked:
            if answer[ERROR] == NONE:
                self._done.set()
            else:  # the broker is still about the transaction before
                self._again()
        return answer


def _frame(source: socket.socket) -> bytes | None:
    """The next one; None at the end."""
    with suppress(OSError):
        if size := source.recv(4, socket.MSG_WAITALL):
            return source.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    return None


def _send(target: socket.socket, frame: bytes) -> None:
    with suppress(OSError):
        target.sendall(len(frame).to_bytes(4, "big") + frame)
