"""Goal: who manages streams does so from the command line, through headquarters' API, and is told of every mistake at once."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from landfall.cli import stream_commands
from landfall.node.node import Node
from streams.log import Append
from streams.model.clock import WallClock
from streams.model.ledger import OriginLedger
from streams.retention.droppable_runs import RUN
from tests.hq_serving.conftest import PASSWORD, api_beside, api_of, login_words, settings_for
from tests.hq_serving.test_registry import running_node
from tests.landfall.commands import called, run
from tests.node.test_definitions import bodies
from tests.support.fleet import Calendar, address, readings, settings, until
from tests.support.forked import landfall

NAME, OTHER = "customers/duckworks", "customers/cogs"
DAY_MS = 86_400_000


@pytest.fixture
def at(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Options that reach the API of a real headquarters, whose folder is the test's."""
    with running_node(tmp_path) as door, api_of(settings_for(tmp_path / "log", tmp_path, door)) as client:
        yield login_words(client, "cleo", tmp_path)


def test_a_customers_boxes_in_a_stream_with_other_settings(at: tuple[str, ...], tmp_path: Path) -> None:
    assert "access" not in called("stream", "create", "--help").stdout + called("stream", "set", "--help").stdout
    refused = called("stream", "create", NAME, "age_days=365", "access=role:claims", *at)
    assert (refused.returncode, "access: " in refused.stderr) == (2, True), refused.stderr
    done = called("stream", "create", NAME, "age_days=365", *at)
    assert (done.returncode, done.stdout) == (0, f"{NAME} is set, version 1\n"), done.stderr
    assert "[definition_exists]" in called("stream", "create", NAME, "age_days=1", *at).stderr
    done = called("stream", "set", NAME, "bytes=1000000", "patience_s=5", *at)
    assert done.stdout == f"{NAME} is set, version 2\n", done.stderr
    for where in (at, ("--folder", tmp_path)):
        shown = json.loads(called("stream", "show", NAME, "--json", *where).stdout)
        value = shown["value"]
        assert (shown["version"], value["retention"]) == (2, {"age_days": 365, "bytes": 1_000_000}), "what is not named stays as it was"
        assert (value["patience_s"], value["access"], value["replicate"]) == (5, "", ["customer/duckworks"])
    versions = [json.loads(line) for line in called("stream", "versions", NAME, "--folder", tmp_path, "--json").stdout.splitlines()]
    assert [(one["version"], one["by"]) for one in versions] == [(1, "Cleo"), (2, "Cleo")]
    assert [one["value"]["retention"] for one in versions] == [{"age_days": 365}, {"age_days": 365, "bytes": 1_000_000}]
    assert "1000000" in called("stream", "versions", NAME, "--folder", tmp_path).stdout
    told = called("stream", "show", NAME, "--folder", tmp_path).stdout
    assert "365 days" in told
    assert "1,000,000 B" in told
    listed = called("stream", "ls", *at).stdout
    assert [line.split()[0] for line in listed.splitlines() if "365 days" in line] == [NAME]


def test_who_asks_headquarters_logs_in(at: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """As the options of `create` do: without a name that is told, the password is read from standard input; and a customer may not."""
    api, name = at[:2], at[3]
    assert "→ give --username" in called("stream", "ls", *api).stderr
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n" * 2))
    done = called("stream", "show", "containers", *api, "--username", name)
    assert (done.returncode, "all but customers" in done.stdout) == (0, True), done.stderr
    told = called("stream", "show", "containers", *api, "--username", "donald").stderr
    assert "[right_missing]" in told


def test_two_who_change_one_stream_at_once_lose_neither_change(
    at: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One looks, another one's command comes and ends, the first one writes: refused, told by whom, and right when done again."""
    looked = stream_commands._standing
    others: list[tuple[str, ...]] = []

    def slow(client: httpx.Client) -> dict[str, dict[str, Any]]:
        standing = looked(client)
        while others:
            assert landfall("stream", *others.pop(), *at).returncode == 0
        return standing

    monkeypatch.setattr(stream_commands, "_standing", slow)
    others.append(("create", NAME, "age_days=365"))
    code, _, err = run(capsys, "stream", "create", NAME, "bytes=1000000", *at)
    assert (code, "[entries_overtaken]" in err, "version 1 stands, by Cleo" in err) == (2, True, True), err
    others.append(("set", NAME, "lane=events"))
    code, _, err = run(capsys, "stream", "set", NAME, "bytes=1000000", *at)
    assert (code, "[entries_overtaken]" in err, "version 2 stands" in err) == (2, True, True), err
    assert run(capsys, "stream", "set", NAME, "bytes=1000000", *at)[:2] == (0, f"{NAME} is set, version 3\n")
    shown = json.loads(landfall("stream", "show", NAME, "--json", *at).stdout)["value"]
    assert (shown["retention"], shown["lane"]) == ({"age_days": 365, "bytes": 1_000_000}, "events")


def test_every_mistake_is_told_at_once_and_nothing_is_set(at: tuple[str, ...]) -> None:
    done = called("stream", "create", "containers", "age_days=-3", "replicate=hq,customer/duckworks", "lane=fast", *at)
    told = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert all(problem in told for problem in ("age_days", "customers/duckworks", "lane: "))
    assert "[definition_unknown]" in called("stream", "set", "containers", "age_days=3", *at).stderr
    assert "is no setting" in called("stream", "create", "containers", "forever", *at).stderr


def test_what_is_unset_goes_by_the_patterns_again(at: tuple[str, ...]) -> None:
    def shown() -> dict[str, Any]:
        told: dict[str, Any] = json.loads(called("stream", "show", NAME, "--json", *at).stdout)
        return told

    assert called("stream", "create", "customers/*", "age_days=90", "lane=events", *at).returncode == 0
    assert called("stream", "create", NAME, "age_days=365", "bytes=1000000", "lane=alerts", *at).returncode == 0
    done = called("stream", "unset", NAME, "age_days", "lane", *at)
    assert (done.returncode, done.stdout) == (0, f"{NAME} is set, version 2\n"), done.stderr
    assert (shown()["value"]["retention"], shown()["value"]["lane"]) == ({"age_days": 90, "bytes": 1_000_000}, "events")
    done = called("stream", "unset", NAME, "lane", "color", *at)
    assert (done.returncode, "[setting_not_own]" in done.stderr, "it has bytes" in done.stderr) == (2, True, True)
    assert called("stream", "unset", NAME, *at).returncode == 0
    assert (shown()["version"], shown()["value"]["retention"]) == (3, {"age_days": 90, "bytes": None})
    assert "[setting_not_own]" in called("stream", "unset", NAME, *at).stderr
    assert "[definition_unknown]" in called("stream", "set", NAME, "bytes=1", *at).stderr
    assert called("stream", "create", NAME, "bytes=7", *at).stdout == f"{NAME} is set, version 4\n"


async def test_a_customers_boxes_go_elsewhere_and_are_kept_as_long_as_is_set(tmp_path: Path) -> None:
    """By two commands, at nodes that run: Tokyo becomes home of one customer's stream, and its age counts for it alone."""
    clock = Calendar(WallClock().now_ms())
    hq, tokyo = [Node(settings(name, tmp_path).model_copy(update={"retention_every_s": 0.05}), clock) for name in ("hq", "tokyo")]
    for node in (hq, tokyo):
        await node.start()
    tokyo.link([address("tokyo", "hq", hq.url)])
    boxes = readings(0, RUN + 5).records
    await hq.append([Append(stream, boxes) for stream in (NAME, OTHER, "containers")])
    api_settings = settings_for(tmp_path / "hq" / "log", tmp_path, hq.url).model_copy(update={"token": SecretStr("door-of-hq")})
    async with api_beside(api_settings) as client:
        at = login_words(client, "cleo", tmp_path)

        async def done(*words: str) -> subprocess.CompletedProcess[str]:
            return await asyncio.to_thread(called, "stream", *words, *at)

        await until(lambda: tokyo.log.position("containers") == hq.log.position("containers"))
        assert NAME not in tokyo.log.streams(), "by default a customer's stream stays where it was made"
        assert (await done("create", NAME, "home=port/JPTYO", "replicate=customer/duckworks,port/JPTYO")).returncode == 0
        await until(lambda: tokyo.log.position(NAME) == hq.log.position(NAME))
        assert OTHER not in tokyo.log.streams()
        clock.at_ms += 60 * DAY_MS
        assert (await done("set", NAME, "age_days=30")).returncode == 0
    for node in (hq, tokyo):
        await until(lambda node=node: floor(node, NAME, hq) == RUN)  # type: ignore[misc]
    assert [floor(hq, stream, hq) for stream in (OTHER, "containers")] == [0, 0]
    assert not [node for node in (hq, tokyo) for text in bodies(node, "exceptions") if "broke the rules" in text]
    for node in (tokyo, hq):
        await node.stop()


def floor(node: Node, stream: str, origin_of: Node) -> int:
    return node.log.ledger(stream).get(origin_of.log.origin, OriginLedger()).floor


@pytest.mark.parametrize("setting", ["age_days=nan", "age_days=inf", "bytes=-inf", "patience_s=1e999", "age_days=soon"])
def test_a_setting_that_is_no_number_is_told_before_anybody_is_asked(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--api", "http://127.0.0.1:9", "--username", "ada", "--password-file", "none")
    for command in ("create", "set"):
        code, _, err = run(capsys, "stream", command, "customers/x", setting, *at)
        field, _, text = setting.partition("=")
        assert (code, "[number_invalid]" in err and field in err and repr(text) in err) == (2, True), err
