"""Goal: of each reading that goes by the relay it is told when it was acknowledged, whatever identifiers the broker gives."""

from __future__ import annotations

import asyncio

from bench.brokered import Tap, parted
from bench.mqtt import packet_end
from intake.mqtt.packets import packet

TOPIC = b"landfall/containers/MSKU1234565/reading"


def publish(packet_id: int, payload: bytes) -> bytes:
    return packet(0x32, len(TOPIC).to_bytes(2) + TOPIC + packet_id.to_bytes(2) + payload)


async def test_one_identifier_of_two_messages_under_way_is_two_acknowledgements() -> None:
    """Beside a flood more than 65,535 may be under way at once."""
    given, noted, all_noted = [publish(7, b"0"), publish(8, b"1"), publish(7, b"2")], list[int](), asyncio.Event()
    numbers = {parted(one, (packet_end(one, 0) or (0, 0))[0])[1]: number for number, one in enumerate(given)}

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(given))
        await reader.read()
        writer.close()

    def note(number: int) -> None:
        noted.append(number)
        if len(noted) == len(given):
            all_noted.set()

    server = await asyncio.start_server(broker, "127.0.0.1", 0)
    async with server, Tap(server.sockets[0].getsockname()[1], numbers.get, note) as tap:
        reader, writer = await asyncio.open_connection("127.0.0.1", tap.port)
        await reader.readexactly(sum(map(len, given)))
        writer.write(b"\x40\2\0\7" + b"\x40\2\0\x08" + b"\x40\2\0\7")
        async with asyncio.timeout(60):
            await all_noted.wait()
            writer.close()
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))  # the relay's and the broker's end with it
    assert noted == [0, 1, 2]
