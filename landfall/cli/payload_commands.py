"""`landfall payload`: the format of sensors' payloads, for builders of sensors and gateways: the schema, and a check of real payloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cargo.vocabulary.payload_schema import payload_schema
from cargo.vocabulary.reading_batches import read_payloads
from intake.decoders.decoder_names import DECODERS, find_decoder
from intake.decoders.decoder_port import decoded
from intake.pipeline_batches import believed_times, clock_flag
from landfall.cli.terminal_encoding import say
from landfall.system.text_files import without_mark
from streams.model.clock import WallClock
from streams.model.errors import Misuse

DEVICES_SINCE_MS = 1_420_070_400_000
"""Earliest device time that is taken for a plausible time in another unit: 2015-01-01, UTC ms."""
payload_app = typer.Typer(
    help="What sensors may send: the schema, and a check of payloads against what intake takes.", no_args_is_help=True
)


@payload_app.command("schema")
def schema() -> None:
    """Print the JSON Schema of payloads, the same as docs/reference/payload.schema.json."""
    say(schema_text().removesuffix("\n"))


@payload_app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="File with one payload per line.")],
    decoder: Annotated[
        str, typer.Option("--decoder", help=f"Decoder of the payloads: {', '.join(DECODERS)}, or module:function of your own.")
    ] = "",
) -> None:
    """Show what intake would do with each payload: store it whole, in part, or refuse it, with the reason. Exits with 1 unless all are
    stored whole.

    A warning concerns a payload that is stored whole and flagged: its device time is missing or not believed.
    """
    try:
        lines = [line for line in without_mark(file.read_bytes()).splitlines() if line.strip()]
    except OSError as problem:
        raise Misuse(f"{file} can not be read: {problem.strerror}", hint="give the right path", code="file_unavailable") from None
    bad, believed = 0, believed_times(WallClock())
    for number, line in enumerate(lines, 1):
        problems, warnings = findings(line, decoder, believed)
        bad += bool(problems)
        for text in (*problems, *(f"warning: {warning}" for warning in warnings)):
            say(f"{number}: {text}")
    say(f"{len(lines) - bad:,} of {len(lines):,} taken whole")
    if bad:
        raise typer.Exit(1)


def schema_text() -> str:
    """Return the schema as a file has it."""
    return json.dumps(payload_schema(), indent=2, ensure_ascii=False) + "\n"


def findings(payload: bytes, decoder: str, believed: range) -> tuple[list[str], list[str]]:
    """Return what of a payload intake refuses, and why; and what it accepts and flags, where device times in `believed` (UTC ms) are
    believed. Raises Misuse when there is no such decoder.
    """
    payloads, problems = [payload], []
    if decoder:
        try:
            made = decoded(find_decoder(decoder), payload)
        except ValueError as problem:
            raise Misuse(str(problem), hint="see docs/guide/payloads.md", code="decoder_invalid") from None
        payloads = [one for _, one in made.messages]
        problems = [made.problem] if made.problem else []
    readings = read_payloads(payloads)
    problems += [f"refused: {refusal.reason}" for refusal in readings.refusals.values()]
    for fields in readings.refused.values():
        problems += [f"{name} = {json.dumps(value)} can not be true: moved to `refused`" for name, value in fields.items()]
    flags = [(at_ms, flag) for at_ms in readings.device_at_ms if (flag := clock_flag(at_ms, believed))]
    return problems, [_warning(at_ms, flag, believed) for at_ms, flag in flags]


def _warning(at_ms: int | None, flag: str, believed: range) -> str:
    if at_ms is None:
        return f"no time of its own: flagged `{flag}`, ordered by the time it is received"
    units = {"seconds": at_ms * 1_000, "microseconds": at_ms // 1_000}
    plausible = range(DEVICES_SINCE_MS, believed.stop)
    meant = next((f"; it may be {unit}, `at` is in milliseconds" for unit, as_ms in units.items() if as_ms in plausible), "")
    return f"at = {at_ms} is not believed: flagged `{flag}`, ordered by the time it is received{meant}"
