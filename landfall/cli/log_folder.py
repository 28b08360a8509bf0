"""The opening of a node's log from its folder, to look into it while the node runs or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import typer

from cargo.alerts.alert_authorization import JUDGES
from cargo.vocabulary.trade_codes import stored_number
from landfall.cli.table_output import write_notes
from landfall.storage.damage import Damage
from landfall.storage.epoch_marker import marked_node
from landfall.storage.index_recovery import index_problem, recovered
from landfall.storage.log_kinds import AnyReader, in_kafka, open_reader
from landfall.storage.log_view import PassedOver
from landfall.storage.peers_file import KnownPeers
from landfall.storage.segments import SEGMENTS
from streams.codec import BlockCodec
from streams.integrity.record_authorization import Entitled
from streams.log import LogReader
from streams.model.errors import Misuse
from streams.model.identifiers import Origin, check_stream
from streams.retention.floor_reasons import UNSAID, starts_of

DAMAGED = 1
"""Exit code of a command that passed over what does not verify."""
_NAMES = "`landfall stream ls` shows the names"


@contextmanager
def opened(folder: Path, *, whole: bool = False, judged: bool = False) -> Iterator[AnyReader]:
    """Yield the log in `folder` or `folder/log`, for reading until the block ends. Where its index lacks what the files have, the log is
    read by an index made for that.

    With `judged`, records that their writer may not write are left out, as the node itself does; else all that is kept is shown. What does
    not verify is reported on standard error and passed over, and the command ends with DAMAGED; with `whole` it raises Corrupt. Raises
    Misuse when there is no log.
    """
    log = next((place for place in (folder, folder / "log") if in_kafka(place) or (place / SEGMENTS).exists()), None)
    if log is None:
        raise Misuse(f"there is no log in {folder}", hint="give a node's folder with --folder, as in its settings", code="log_missing")
    damaged = 0

    def passed_over(what: str) -> None:
        nonlocal damaged
        damaged += 1
        write_notes([f"{what}: passed over, as if it were not here"])

    entitled = Entitled(KnownPeers(log).peer, JUDGES) if judged else None
    with _reader(log, None if whole else passed_over, entitled) as reader:
        yield reader
    if damaged:
        raise typer.Exit(DAMAGED)


@contextmanager
def _reader(log: Path, passed_over: PassedOver | None, entitled: Entitled | None) -> Iterator[AnyReader]:
    why = None if in_kafka(log) else index_problem(log)
    if why is not None:
        write_notes(
            [f"its index lacks what this log's files have ({why}); read by one made for this. The node repairs its own when it starts"]
        )

        def on_damage(damage: Damage) -> None:
            if damage.offsets and passed_over is not None:
                passed_over(str(damage))
            else:
                write_notes([str(damage)])

        with recovered(log, BlockCodec(), on_damage, passed_over, entitled) as reader:
            yield reader
        return
    try:
        with closing(open_reader(log, BlockCodec(), passed_over, entitled)) as opened_log:
            yield opened_log
    except FileNotFoundError:
        raise Misuse(
            f"the log in {log} has no index yet", hint="start its node: it makes one from what its brokers have", code="index_missing"
        ) from None


def known_stream(log: AnyReader, stream: str) -> str:
    """Return `stream` itself. Raises Misuse when the log knows no stream of that name."""
    if _named(stream) not in log.streams():
        raise Misuse(f"nothing of a stream {stream!r} is in this log", hint=_NAMES, code="stream_unknown")
    return stream


def known_topic(log: LogReader, topic: str) -> str:
    """Return `topic` as the log has it: as it is written, where the log has records of it, else as intake stores a container's number."""
    stored = stored_number(topic)
    return topic if stored == topic or log.history(topic).rows.num_rows else stored


def awaited_stream(log: AnyReader, stream: str) -> str:
    """Return `stream` itself. Report on standard error where the log has nothing of it yet. Raises Misuse for what is no stream's name."""
    if _named(stream) not in log.streams():
        write_notes([f"nothing of a stream {stream!r} is in this log yet: it is waited for ({_NAMES})"])
    return stream


def _named(stream: str) -> str:
    try:
        return check_stream(stream)
    except ValueError as problem:
        raise Misuse(str(problem), hint=_NAMES, code="stream_invalid") from None


def floors_why(folder: Path, log: LogReader, stream: str) -> Mapping[Origin, str]:
    """Return the reasons for the floors of the log in `folder` (`streams/retention/floor_reasons.py`), of each origin that has a floor.

    They are the reports of the node whose folder it is; for a copy apart from its node, those of any node.
    """
    node = next((name for place in (folder, folder.parent) if (name := marked_node(place / "marker"))), None)
    reasons = starts_of(log, stream, None if node is None else {node})
    return {origin: reasons.get(origin, UNSAID) for origin, line in log.ledger(stream).items() if line.floor}
