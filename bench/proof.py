"""How fast chains follow readings, how large what is signed and shown is, and how long a copy and a proof file take to check.

`python -m bench.proof [containers] [hours]`. Prints one JSON object; rates are of one core's time.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from bench.readings import fleet_readings
from streams.clock import StillClock
from streams.codec import BlockCodec
from streams.log import Append
from streams.logs.files import FileLog
from streams.logs.stamping import stamped
from streams.proof.canonical import row_digests
from streams.proof.chain import RUN, Chain
from streams.proof.checking import check
from streams.proof.keys import SigningKey
from streams.proof.making import Claim, make
from streams.proof.reading import Copy
from streams.proof.signing import Signer
from streams.proof.trust import GIVEN, Trust
from streams.proof.verifying import verify
from streams.records import DEVICE_AT, TOPIC
from streams.words import Origin

ORIGIN = Origin("ship-9321483", 1_863_941_986_713_941_312)
NOW_MS = 1_777_593_600_000
ALERTS = 1_000


def main() -> None:
    """Measures and prints."""
    given = [int(word) for word in sys.argv[1:]]
    containers, hours = (*given, *(2000, 48)[len(given) :])
    readings = fleet_readings(containers, hours)
    parts = [readings.slice(at, 10_000) for at in range(0, readings.num_rows, 10_000)]
    rows = [stamped(part, at * 10_000, part.column(DEVICE_AT)[part.num_rows - 1].as_py() + 900) for at, part in enumerate(parts)]
    begun_s = time.process_time()
    for part in rows:
        row_digests(part)
    digested_s = time.process_time()
    chain = Chain("containers", ORIGIN)
    for part in rows:
        chain.follow(part)
    followed_s = time.process_time()
    figures = {
        "bench": "proof",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "readings": readings.num_rows,
        "containers": containers,
        "row_digests_per_s": round(readings.num_rows / (digested_s - begun_s)),
        "followed_per_s": round(readings.num_rows / (followed_s - digested_s)),
        **_over_a_log(parts, readings.column(TOPIC)[0].as_py()),
    }
    print(json.dumps(figures, indent=2))


def _over_a_log(parts: list[pa.RecordBatch], topic: str) -> dict[str, float]:
    """Signing, verifying and proving over a file log."""
    with tempfile.TemporaryDirectory() as folder:
        clock, codec, key = StillClock(NOW_MS), BlockCodec(), SigningKey.made()
        log = FileLog(Path(folder) / "log", Path(folder) / "marker", "ship-9321483", codec, clock)
        signer = Signer(log, codec, key, clock, lambda *_, **__: None)
        signing_s = 0.0
        for part in parts:
            clock.at_ms = part.column(DEVICE_AT)[part.num_rows - 1].as_py() + 900
            log.append([Append("containers", part)])
            begun_s = time.process_time()
            due = signer.due()
            signing_s += time.process_time() - begun_s
            log.append(due)
        alert = parts[0].slice(0, 1)
        plain_s = _alerts_s(log, alert, "sirens")
        log.witnessed_by(signer.witness)
        alerts_s = _alerts_s(log, alert, "alerts")
        count = sum(part.num_rows for part in parts)
        copy, trust = Copy(log, codec), Trust({"ship-9321483": frozenset([key.public])}, GIVEN)
        begun_s = time.process_time()
        verdict = verify(copy, "containers", log.origin, trust)
        verified_s = time.process_time() - begun_s
        assert verdict.holds, verdict
        assert verdict.proven.count() == count
        until = parts[-1].column(DEVICE_AT)[0].as_py()
        data = make(copy, Claim(topic, until - 24 * 3_600_000, until), [("containers", log.origin)], trust).to_bytes()
        begun_s = time.process_time()
        finding = check(data, trust)
        checked_s = time.process_time() - begun_s
        assert finding.holds, finding.problems
        assert finding.proof is not None
        log.close()
        return {
            "signed_from_the_log_per_s": round(count / signing_s),
            "alert_commit_cpu_ms": round(plain_s / ALERTS * 1000, 2),
            "signed_alert_commit_cpu_ms": round(alerts_s / ALERTS * 1000, 2),
            "verified_per_s": round(count / verified_s),
            "proof_of_24_h_bytes": len(data),
            "proof_of_24_h_records": len(finding.sections[0].rows),
            "proof_of_24_h_runs": len(finding.proof.sections[0].runs),
            "proof_of_24_h_checked_ms": round(checked_s * 1000, 1),
            "rows_a_run": RUN,
        }


def _alerts_s(log: FileLog, alert: pa.RecordBatch, stream: str) -> float:
    begun_s = time.process_time()
    for _ in range(ALERTS):
        log.append([Append(stream, alert)])
    return time.process_time() - begun_s


if __name__ == "__main__":
    main()
