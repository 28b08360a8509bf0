"""Goal: staff read all that a ship reported; an owner is told of its own boxes alone, when the carrier's policy has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cargo.report.loss_report import approve
from tests.hq_serving.conftest import api_of, log_in, make_projector, project, settings_for, sqlite_url
from tests.hq_serving.fleet import DUCKS, FOREIGN, Fleet, fill


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, Path]]:
    """The fleet's story, with incident i-1's draft; and incident i-9, whose report the master has approved."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet = Fleet(folder)
    fill(fleet)
    fleet.reported("i-9", [DUCKS[0], FOREIGN[1]], lambda report, at_ms: approve(report, "Master Moe", at_ms))
    project(make_projector(fleet.hq_dir, sqlite_url(folder)))
    yield fleet, folder
    fleet.close()


def asked(client: httpx.Client, username: str, path: str) -> Any:
    answer = client.get(f"/api/{path}", headers=log_in(client, username))
    return answer.json()["items"] if answer.status_code == 200 else answer.status_code


def boxes(told: Any) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for notice in told:
        found.setdefault(notice["customer"], []).append([box["container"] for box in notice["boxes"]])
    return {customer: sorted(some) for customer, some in found.items()}


@pytest.mark.parametrize(
    ("version", "policy", "ducks"),
    [(1, None, [[DUCKS[0]], [DUCKS[3]]]), (2, "sent", None), (3, "approved", [[DUCKS[0]]]), (4, "drafted", [[DUCKS[0]], [DUCKS[3]]])],
)
def test_an_owner_has_its_own_notices_when_the_policy_says(filled: tuple[Fleet, Path], version: int, policy: Any, ducks: Any) -> None:
    """The policy is a record of the registry, of which the last version counts; without one owners are told at once."""
    fleet, folder = filled
    if policy is not None:
        fleet.register(("policy", "owners", {"told_from": policy}), version=version)
    with api_of(settings_for(fleet.hq_dir, folder)) as client:
        own = asked(client, "donald", "notices")
        assert boxes(own) == ({} if ducks is None else {"ducks": ducks})
        unconfirmed = {box["container"]: box["unconfirmed"] for notice in own for box in notice["boxes"]}
        assert unconfirmed == {box: box != DUCKS[3] for notice in ducks or () for box in notice}
        assert [number for number in FOREIGN if number in str(own)] == []
        assert "machines" not in str(own)
        assert set(boxes(asked(client, "mira", "notices"))) == (set() if ducks is None else {"ducks", "machines"})
        assert asked(client, "crew", "notices") == 403


def test_staff_read_the_reports_as_the_ship_wrote_them_and_the_newest(filled: tuple[Fleet, Path]) -> None:
    """What comes into the log while the API runs is there at the next question."""
    fleet, folder = filled
    with api_of(settings_for(fleet.hq_dir, folder)) as client:
        draft = asked(client, "cleo", "incidents/i-1/reports")[0]
        assert (draft["kind"], draft["state"], [box["container"] for box in draft["lost"]]) == (
            "INITIAL",
            "draft",
            [DUCKS[3], *FOREIGN[:2]],
        )
        assert "not been sent" in draft["text"]
        assert [one["approved_by"] for one in asked(client, "mira", "incidents/i-9/reports")] == ["Master Moe"]
        assert asked(client, "mira", "incidents/i-none/reports") == 404
        assert [asked(client, name, "incidents/i-1/reports") for name in ("donald", "otto", "crew")] == [403] * 3
        fleet.reported("i-1", [DUCKS[3], *FOREIGN[:2]], lambda report, at_ms: approve(report, "Master Ray", at_ms))
        assert [one["approved_by"] for one in asked(client, "mira", "incidents/i-1/reports")] == ["Master Ray"]
