"""Goal: what is signed of a stream is never taken for records of it: not projected, not fanned out, not shown to a customer."""

from __future__ import annotations

from hq.fanout.customer_routes import is_fanned_out
from hq.fanout.customer_routes import route as fanned_out
from hq.serving.routes import route as projected
from hq.serving.routes import routes
from tests.hq_serving.conftest import fleet
from tests.hq_serving.fleet import Fleet

__all__ = ["fleet"]

CUSTOMER = "customers/duckworks"
STREAMS = ["alerts", "alerts.heads", "containers", "containers.heads", "containers.kept", CUSTOMER, f"{CUSTOMER}.heads"]
RECORDS = ["alerts", "containers", CUSTOMER]


def test_heads_are_not_projected(fleet: Fleet) -> None:
    assert sorted(stream for stream, _ in projected(routes({}, fleet.logs["hq"]), STREAMS)) == RECORDS


def test_heads_are_not_fanned_out() -> None:
    assert sorted(fanned_out(STREAMS)) == RECORDS
    assert not is_fanned_out(f"{CUSTOMER}.heads")
