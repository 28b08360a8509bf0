"""How old everything is: Spark's results, the projector, each process's last word; and the story's chapters."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from hq.api.services import Asking, StoreView, wall_ms

router = APIRouter()
Fields = dict[str, Any]


@router.get("/status")
def status(ask: Asking) -> Fields:
    """Return the age of analytics and projector, in fleet time and wall time. Staff also see processes, readings, streams, and what
    ships have waiting.
    """
    with ask.look() as look:
        processes = look.rows(look.sight.processes())
        process_fields = sorted((_process(row, look) for row in processes), key=lambda process: (process["node"], process["process"]))
        return look.framed(
            spark={**_age(look, look.fresh.spark_at_ms, look.fresh.spark_wall_at_ms), "well": look.fresh.spark_well},
            projector=_age(look, look.fresh.log_at_ms, look.fresh.log_wall_at_ms),
            processes=process_fields,
            waiting=sorted((_waiting(row, look) for row in look.rows(look.sight.waiting())), key=lambda ship: str(ship["node"])),
            readings=next((row["readings"] for row in look.rows(look.sight.readings_received())), None),
            streams=sorted(look.rows(look.sight.stream_ages()), key=lambda stream: str(stream["stream"])),
        )


@router.get("/story")
def story(ask: Asking) -> Fields:
    """List the chapters of the demo that have begun: what happened, and where to look. For others than staff the list is empty."""
    with ask.look() as look:
        chapters = [{"chapter": row["id"], **row["value"]} for row in look.rows(look.sight.stories())]
        return look.framed(from_log=True, items=sorted(chapters, key=lambda one: (one["at_ms"], one["chapter"])))


def _age(look: StoreView, at_ms: int | None, wall_at_ms: int | None) -> Fields:
    return {
        "at_ms": at_ms,
        "wall_at_ms": wall_at_ms,
        "age_ms": None if at_ms is None else look.now_at_ms - at_ms,
        "wall_age_ms": None if wall_at_ms is None else wall_ms() - wall_at_ms,
    }


def _waiting(row: Fields, look: StoreView) -> Fields:
    return {"node": row["node"], **_age(look, row["at_ms"], row["wall_at_ms"]), "streams": row["body"]["streams"]}


def _process(row: Fields, look: StoreView) -> Fields:
    body = row["body"]
    measures = {name: body.get(name, {}) for name in ("counts", "gauges", "histograms")}
    age = _age(look, row["at_ms"], row["wall_at_ms"])
    stands_still = [body["problem"]] if body.get("problem") else []
    return {"node": row["node"], "process": row["process"], **age, "troubles": [*stands_still, *body.get("troubles", ())], **measures}
