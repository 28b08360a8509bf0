"""A way to a real Kafka on which a broker does not know a new topic for as many Produce requests as a test likes."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

PRODUCE = 0
HELD_S = 0.5


class RefusingWay:
    """Everything passes, to and fro, and every client is led back to this way.

    The next `refused_left` Produce requests to `topic` are asked of the broker under a name that it does not know, so that it refuses them
    itself, as one does that does not lead the topic yet. The client hears of it once it has sent one more, if it does so unanswered.
    """

    def __init__(self, broker: str, topic: str, refused_left: int) -> None:
        host, port = broker.split(":")
        self._broker = host, int(port)
        self._topic, self._unknown = topic.encode(), topic[:-1].encode() + b"-"
        self.refused_left = refused_left
        self._followed = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        own_port = self._listening.getsockname()[1]
        self._there, self._here = (host.encode() + one.to_bytes(4, "big") for one in (int(port), own_port))
        self.address = f"{host}:{own_port}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

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
                refused: set[bytes] = set()
                threading.Thread(target=self._ask, args=(client, broker, refused), daemon=True).start()
                threading.Thread(target=self._answer, args=(broker, client, refused), daemon=True).start()

    def _ask(self, client: socket.socket, broker: socket.socket, refused: set[bytes]) -> None:
        """Requests: what is asked, its version and its number stand first."""
        while (request := _frame(client)) is not None:
            if int.from_bytes(request[:2], "big") == PRODUCE and self._topic in request:
                if self.refused_left:
                    self.refused_left -= 1
                    refused.add(request[4:8])
                    request = request.replace(self._topic, self._unknown, 1)
                else:
                    self._followed.set()
            _send(broker, request)

    def _answer(self, broker: socket.socket, client: socket.socket, refused: set[bytes]) -> None:
        """Answers: the request's number stands first."""
        while (answer := _frame(broker)) is not None:
            if answer[:4] in refused:
                refused.remove(answer[:4])
                self._followed.wait(HELD_S)
                answer = answer.replace(self._unknown, self._topic, 1)
            _send(client, answer.replace(self._there, self._here))


def _frame(source: socket.socket) -> bytes | None:
    """The next one; None at the end."""
    with suppress(OSError):
        if size := source.recv(4, socket.MSG_WAITALL):
            return source.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    return None


def _send(target: socket.socket, frame: bytes) -> None:
    with suppress(OSError):
        target.sendall(len(frame).to_bytes(4, "big") + frame)
