"""NATS JetStream: a ship's server is a leaf node of headquarters' server, whose streams mirror the streams of the ship's server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from bench.duel.side import Compared, Given, Listener, compare, folder_of, wait_until
from bench.nats import NatsClient, nats_binary, nats_client, nats_server
from tests.support.ports import free_ports
from tests.support.proxy import Proxy

AT_ONCE = 5_000
LOADED_S_MAX = 600.0
STREAMS = {"containers": "c", "alerts": "a"}
SETTINGS = {
    "compression": "s2_best at both ends",
    "reconnect": "1s",
    "first_info_timeout": "30s",
    "write_deadline": "60s",
    "sync_interval": "2m (default)",
    "mirror": "one a stream, by the domain's API",
}


class NatsLeaf:
    """Both servers. The leaf dials through the proxy."""

    name = "nats"
    bytes_reading_least = 25.0
    shoreward_is_out = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ship_port, self._hq_port, leaf_port = free_ports(3)
        self._leaf_port = leaf_port
        self.proxy = Proxy(leaf_port)
        self._running = ExitStack()
        self._pids: dict[str, int] = {}
        self._listener: Listener | None = None

    def start(self) -> dict[str, Any]:
        """Start both servers: the ship's server with the streams, headquarters' server with the mirrors of these streams."""
        usual = (
            'host: 127.0.0.1\nport: {port}\nserver_name: {name}\nwrite_deadline: "60s"\n'
            'jetstream {{ store_dir: "{store}", domain: {name} }}\n'
        )
        leaf = f"leafnodes {{ host: 127.0.0.1, port: {self._leaf_port}, compression: s2_best }}\n"
        remote = (
            f'leafnodes {{ reconnect: "1s", remotes: [ {{ url: "nats-leaf://127.0.0.1:{self.proxy.port}", compression: s2_best, '
            'first_info_timeout: "30s" } ] }\n'
        )
        for name, port, more in (("hq", self._hq_port, leaf), ("ship", self._ship_port, remote)):
            folder = folder_of(self._folder, name)
            settings = usual.format(port=port, name=name, store=folder / "js") + more
            self._pids[name] = self._running.enter_context(nats_server(folder, settings)).pid
        ship, self._hq = nats_client(self._ship_port), nats_client(self._hq_port)
        self._ship = ship
        for stream, subject in STREAMS.items():
            self._ship.ask(f"$JS.API.STREAM.CREATE.{stream}", {"name": stream, "subjects": [f"{subject}.*"], "storage": "file"})
            mirror = {"name": stream, "external": {"api": "$JS.ship.API"}}
            self._hq.ask(f"$JS.API.STREAM.CREATE.{stream}", {"name": stream, "storage": "file", "mirror": mirror})
        self._listener = Listener(self._listen)
        version = subprocess.run([nats_binary(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
        return {"version": version, "settings": SETTINGS}

    def load(self, given: Given) -> None:
        """Publish the readings to the ship's server, and wait until its stream holds them."""
        messages, sent = given.messages(), 0
        while part := [(f"c.{topic}", payload) for topic, payload in islice(messages, AT_ONCE)]:
            self._ship.publish(part)
            sent += len(part)
            wait_until(lambda sent=sent: self._ship.stored("containers") >= sent, "the ship's stream holds them", LOADED_S_MAX)

    def arrived(self) -> int:
        """Messages in headquarters' mirror."""
        return self._hq.stored("containers")

    def moved(self) -> int:
        """By readings."""
        return self.arrived()

    def alert(self, number: int) -> None:
        """Publish the alert to the ship's server."""
        self._ship.publish([(f"a.{number}", b'{"alert_id":"duel-%d","rule":"overboard","severity":"critical"}' % number)])

    def alerts_heard_s(self) -> dict[int, float]:
        """By a consumer of headquarters' mirror."""
        assert self._listener is not None
        return self._listener.heard

    def compared(self, given: Given) -> Compared:
        """Every message of headquarters' mirror."""
        client, arrived = self._consumer("containers", "duel.rows"), self.arrived()
        came = [(subject.partition(".")[2], data) for subject, data in islice(client.messages(), arrived)] if arrived else []
        client.close()
        return compare(given.messages(), came)

    def processes(self) -> dict[str, int]:
        """The two servers."""
        return {"ship": self._pids["ship"], "shore": self._pids["hq"]}

    def stop(self) -> None:
        """Killed."""
        self._running.close()

    def _listen(self, note: Callable[[int], None]) -> None:
        client = self._consumer("alerts", "duel.alerts")
        while True:
            try:
                for subject, _ in client.messages():
                    note(int(subject.partition(".")[2]))
                return
            except TimeoutError:
                client = self._consumer("alerts", "duel.alerts")
            except OSError:
                return  # the server has ended

    def _consumer(self, stream: str, subject: str) -> NatsClient:
        """A client that is sent all that headquarters' mirror has and will have, each message under its own subject."""
        client = nats_client(self._hq_port)
        client.listen(subject)
        config = {"deliver_subject": subject, "ack_policy": "none", "deliver_policy": "all"}
        asking = nats_client(self._hq_port)
        asking.ask(f"$JS.API.CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        asking.close()
        return client
