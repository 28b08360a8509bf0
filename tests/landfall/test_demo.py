"""Goal: `landfall demo` tells first what hinders it, shows its progress, stops cleanly on Ctrl-C, and goes on where it stopped."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from edge.settings import ShipSettings
from hq.api.accounts import Account, Accounts
from landfall.access.credentials import Credentials
from landfall.cli import demo_command
from landfall.cli.demo_command import OURS, chosen_story, hindrances, is_foreign, prepare, run_demo, unplayable
from landfall.cli.main import main
from landfall.demo.demo_accounts import PEOPLE
from landfall.demo.demo_processes import Program
from landfall.demo.demo_secrets import Secrets
from landfall.demo.fleet_settings import HQ, Doors, Fleet, PlayedStory, accounts_file, programs, sim_settings, write_settings
from landfall.demo.local_ports import ALL
from landfall.runtime.settings_loader import load
from landfall.storage.file_log import FileLogReader
from landfall.system.private_files import write_private
from sim.settings import BEGINS_AT_MS, ReplaySettings, SimSettings
from sim.story_clock import Setting
from sim.story_progress import StoryProgress, save_progress
from streams.codec import BlockCodec
from streams.model.errors import Misuse
from streams.model.identifiers import Origin
from tests.landfall.commands import called, files_of_at_most, process_here
from tests.landfall.house import ENVIRONMENT, POLL_S, ROOT, is_free, said, until
from tests.support.ports import free_port, free_row
from tests.support.refusals import codes_of, refusal

pytestmark = pytest.mark.timeout(900)
PROGRAMS = ("sim", "hq", "tokyo", "singapore", "sydney", "albatross", "cormorant", "projector", "api", "analytics", "dashboards")
STARTED_S_MAX = 400.0


class Demo:
    """`landfall demo` of 40 boxes in `folder`, as a person starts and stops it; what it shows is in `screen`."""

    def __init__(self, folder: Path) -> None:
        self.fleet = Fleet(folder / "fleet", PlayedStory(boxes=40), Doors.beginning_at(free_row(len(ALL))))
        self._screen = folder / "screen.txt"
        self._process: subprocess.Popen[bytes] | None = None

    def words(self, *more: str) -> list[str]:
        """What a person types."""
        return ["demo", "--folder", str(self.fleet.folder), "--first-port", str(self.fleet.doors.pages), *more]

    def start(self, *more: str) -> None:
        with self._screen.open("wb") as screen:
            command = [sys.executable, "-m", "landfall", *self.words(*more)]
            self._process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=screen, stderr=screen)

    def screen(self) -> str:
        return self._screen.read_text()

    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def end(self, told: signal.Signals) -> int:
        """It is told so by a signal; the exit code."""
        assert self._process is not None
        self._process.send_signal(told)
        return self._process.wait(90)

    def at_work(self) -> dict[int, str]:
        """The ids and command lines of all processes that know this demo's folder."""
        lines = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.fleet.folder) in words and process.name != str(os.getpid()):
                lines[int(process.name)] = words
        return lines

    def clock(self) -> dict[str, Any] | None:
        try:
            told: dict[str, Any] = httpx.get(self.fleet.clock_url, trust_env=False, verify=False, timeout=5).json()
        except httpx.TransportError:
            return None
        return told

    def fleet_at_ms(self) -> int:
        """The fleet's time, once the clock tells it."""
        until(self.clock, "the clock", self.screen)
        told = self.clock()
        assert told is not None, self.screen()
        return int(told["fleet_at_ms"])

    def origins(self) -> set[Origin]:
        """Headquarters' own generations."""
        log = FileLogReader(self.fleet.folder / HQ / "log", BlockCodec())
        try:
            return {origin for stream in log.streams() for origin in log.ledger(stream) if origin.node == HQ}
        finally:
            log.close()

    def kill_simulator(self) -> None:
        """SIGKILL."""
        (simulator,) = (process for process, words in self.at_work().items() if "/sim.toml" in words)
        os.kill(simulator, signal.SIGKILL)

    def kill(self) -> None:
        """Whatever happened, nothing is left."""
        if not self.ended() and self._process is not None:
            self._process.kill()
        for process in self.at_work():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    one = Demo(tmp_path)
    yield one
    one.kill()


@pytest.mark.long
def test_the_whole_life_of_a_demo(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start, look, Ctrl-C; a plain start goes on; --fresh begins anew; the last two are stopped while they still start."""
    demo.start("--boxes", "40", "--speed", "600")
    until(lambda: demo.ended() or "✓ sim" in demo.screen(), "the clock", demo.screen)
    told, shown = demo.clock(), demo.screen()
    assert told is not None, shown
    if "every process is healthy" not in shown:
        assert (told["state"], told["fleet_at_ms"], told["stops_at_ms"]) == ("waiting", BEGINS_AT_MS, BEGINS_AT_MS)
    until(lambda: demo.ended() or "stops everything cleanly" in demo.screen(), "the fleet at work", demo.screen, STARTED_S_MAX)
    is_shown_at_work(demo)
    until(lambda: demo.fleet_at_ms() > BEGINS_AT_MS + 600_000, "fleet time goes on", demo.screen)
    demo.kill_simulator()
    until(lambda: "sim ended (killed by SIGKILL)" in demo.screen(), "the simulator is started again", demo.screen)
    killed_ms = demo.fleet_at_ms()
    farther_ms = max(killed_ms, BEGINS_AT_MS + 600_000)
    until(lambda: demo.fleet_at_ms() > farther_ms, "a simulator that died does not wait to be started", demo.screen)
    tables = demo.fleet.folder / "tables"
    until(lambda: any(tables.rglob("*.parquet")), "Spark writes its first rows", demo.screen, STARTED_S_MAX)
    assert demo.end(signal.SIGINT) == 0, demo.screen()
    ended_cleanly(demo, demo.screen())
    written = [path for path in tables.rglob("*") if path.is_file()]
    assert not [path for path in written if path.stat().st_mode & 0o027], "Spark writes for its group to read alone"
    reached_ms = json.loads((demo.fleet.folder / "sim" / "progress.json").read_text())["fleet_at_ms"]
    origins = demo.origins()
    (trouble,) = said(demo.fleet, "exceptions", "demo")
    assert trouble["reason"] == "sim ended (killed by SIGKILL)"
    metrics = said(demo.fleet, "metrics", "demo")[-1]
    assert (metrics["gauges"]["processes"], metrics["histograms"]["start"]["count"]) == (len(PROGRAMS), len(PROGRAMS))
    Accounts(accounts_file(demo.fleet)).add(Account("mira", "operations", "Mira"), "a password of hers")

    monkeypatch.setattr(demo_command, "programs", clock_and_headquarters)
    with process_here(), stopped_at_its_clock(demo, signal.SIGINT) as reached:
        ended = called(*demo.words())
    assert ended.returncode == 0, ended
    ended_cleanly(demo, ended.stdout)
    assert reached == [reached_ms]
    assert reached_ms > BEGINS_AT_MS + 600_000
    assert demo.origins() == origins
    assert Accounts(accounts_file(demo.fleet)).get("mira") is not None

    with process_here(), stopped_at_its_clock(demo, signal.SIGHUP) as reached:
        ended = called(*demo.words("--boxes", "40", "--fresh"))
    assert ended.returncode == 0, ended
    ended_cleanly(demo, ended.stdout, ("sim", HQ))
    assert reached == [BEGINS_AT_MS]
    assert Accounts(accounts_file(demo.fleet)).get("mira") is None


def is_shown_at_work(demo: Demo) -> None:
    """The screen names every process, where to look, and as whom; that is so."""
    shown = demo.screen()
    assert not demo.ended(), shown
    assert re.findall(r"✓ (\w+)", shown) == [*PROGRAMS, "every"]
    assert "every process is healthy" in shown
    assert {demo.fleet.pages_url, f"{demo.fleet.api_url}/docs"} <= set(shown.split())
    for account, password in PEOPLE:
        assert re.search(rf"{account.username} +{password} +{re.escape(account.name)}", shown), account
    account, password = PEOPLE[0]
    login = {"username": account.username, "password": password}
    assert httpx.post(f"{demo.fleet.api_url}/api/token", data=login, trust_env=False, timeout=90).status_code == 200
    assert httpx.get(f"{demo.fleet.pages_url}/healthz", trust_env=False, timeout=90).status_code == 200


def clock_and_headquarters(fleet: Fleet, files: Mapping[str, Path]) -> list[Program]:
    """The first two of the demo's programs. The second never counts as healthy: the start goes on until it is stopped."""
    clock, headquarters = programs(fleet, files)[:2]
    return [clock, replace(headquarters, health_url=f"http://127.0.0.1:{free_port()}/healthz")]


@contextlib.contextmanager
def stopped_at_its_clock(demo: Demo, told: signal.Signals) -> Iterator[list[int]]:
    """This process, which the block makes a demo, is told to stop once the demo's clock answers; the fleet's time then, in a list."""
    reached: list[int] = []
    ended = threading.Event()

    def stop() -> None:
        while not ended.wait(POLL_S):
            if clock := demo.clock():
                reached.append(int(clock["fleet_at_ms"]))
                os.kill(os.getpid(), told)
                return

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield reached
    finally:
        ended.set()
        thread.join()


def ended_cleanly(demo: Demo, screen: str, names: tuple[str, ...] = PROGRAMS) -> None:
    """The screen says how to go on; no process of the demo is left, no port is held, nothing broke."""
    assert "did not end in time" not in screen
    assert f"demo --folder {demo.fleet.folder} --first-port {demo.fleet.doors.pages}` goes on where this stopped" in screen
    assert demo.at_work() == {}
    assert all(is_free(port) for port in demo.fleet.doors.all())
    logs = {file.name: file.read_text(errors="replace") for file in (demo.fleet.folder / "logs").glob("*.log")}
    assert set(logs) == {f"{name}.log" for name in names}
    troubles = [f"{name}: {text[max(0, text.index('Traceback') - 1_000) :][:6_000]}" for name, text in logs.items() if "Traceback" in text]
    assert not troubles, "\n".join(troubles)


def test_what_hinders_is_told_together_before_anything_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port in use, a story that can not be, too little disk: all are named, and a demo that is there stays even with --fresh."""
    fleet = Fleet(tmp_path / "fleet", PlayedStory(boxes=40), Doors.beginning_at(free_row(len(ALL))))
    assert list(hindrances(fleet, fresh=False)) == []
    prepare(fleet.folder, fresh=True)
    (fleet.folder / "log").touch()
    monkeypatch.setattr(demo_command, "FREE_GB_MIN", 1e9)
    named = ("--seed -1", "--boxes 10", "--speed 0.0", fleet.doors.api, "1000000000 GB")
    with socket.create_server(("127.0.0.1", fleet.doors.api)), refusal(Misuse, "demo_not_ready", *named):
        run_demo(replace(fleet, story=PlayedStory(seed=-1, boxes=10, speed=0.0)), fresh=True)
    assert [file.name for file in fleet.folder.iterdir() if file.name != demo_command.OURS] == ["log"]


def test_a_folder_that_delta_can_not_read_hinders_and_other_odd_ones_do_not(tmp_path: Path) -> None:
    """A percent sign with two hexadecimal digits stands for another letter there; alone it does not, nor does what parts an address."""
    doors = Doors.beginning_at(free_row(len(ALL)))
    for name in ("boxes #3", "boxes?mode=ro", "100%", "100% a"):
        assert list(hindrances(Fleet(tmp_path / name, doors=doors), fresh=False)) == []
    (told,) = hindrances(Fleet(tmp_path / "boxes%4a" / "demo", doors=doors), fresh=False)
    assert "%4a" in told


def test_a_plain_start_with_another_story_than_the_one_under_way_does_not_begin(tmp_path: Path) -> None:
    """The seed and the number of boxes belong to a folder for good; a fresh start may have others."""
    fleet = Fleet(tmp_path / "fleet", PlayedStory(boxes=40), Doors.beginning_at(free_row(len(ALL))))
    (fleet.folder / "sim").mkdir(parents=True)
    settings = SimSettings.model_validate(sim_settings(fleet, Secrets(fleet.folder / "secrets.json")))
    save_progress(settings.progress, StoryProgress(settings.story(), settings.begins_at_ms, 0, Setting(1.0, paused=False)))
    assert list(unplayable(fleet, fresh=False)) == []
    other = replace(fleet, story=PlayedStory(seed=2, boxes=40))
    assert "seed 1, 40 boxes" in "".join(unplayable(other, fresh=False))
    assert list(unplayable(other, fresh=True)) == []


def test_a_plain_start_goes_on_with_the_story_of_the_folder(tmp_path: Path) -> None:
    """Whoever once chose a seed or a number of boxes does not have to say so again; a fresh start is as usual."""
    assert chosen_story(tmp_path, 9.0, fresh=False) == PlayedStory(speed=9.0)
    fleet = Fleet(tmp_path, PlayedStory(seed=3, boxes=40))
    write_settings(fleet)
    assert chosen_story(tmp_path, 9.0, fresh=False) == PlayedStory(seed=3, boxes=40, speed=9.0)
    assert chosen_story(tmp_path, 9.0, fresh=False, boxes=50) == PlayedStory(seed=3, boxes=50, speed=9.0)
    assert chosen_story(tmp_path, 9.0, fresh=True) == PlayedStory(speed=9.0)
    for broken in (b"\xff", b"seed = [1]\nboxes = 40\n", b"seed = 1\n"):
        (fleet.settings_folder / "sim.toml").write_bytes(broken)
        assert chosen_story(tmp_path, 9.0, fresh=False) == PlayedStory(speed=9.0)


def test_a_demo_writes_what_a_replay_beside_it_needs(tmp_path: Path) -> None:
    """The recorded readings go where the ship Albatross takes her own sensors' in, with their login."""
    fleet = Fleet(tmp_path, PlayedStory(boxes=40), Doors.beginning_at(free_row(len(ALL))))
    files = write_settings(fleet)
    assert files["replay"] == tmp_path / "settings" / "replay.toml"
    intake = load(ReplaySettings, files["replay"], {}).intake
    albatross = load(ShipSettings, files["albatross"], {})
    endpoint = albatross.intake.endpoint
    assert endpoint is not None
    known = Credentials(albatross.node.folder)
    known.look()
    assert (intake.at, intake.host, intake.port) == (f"ship/{albatross.node.identity}", endpoint.host, endpoint.port)
    assert intake.username is not None
    assert intake.password is not None
    assert known.is_gateways(intake.username, intake.password.get_secret_value().encode())
    known.close()


def test_whatever_ends_a_fresh_start_while_it_deletes_the_next_goes_on_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the folder is a demo's stands in it as long as anything else does."""
    folder = tmp_path / "demo"
    prepare(folder, fresh=False)
    for name in "abcdefgh":
        (folder / name).mkdir()
        (folder / name / "data").touch()
    (folder / "elsewhere").symlink_to(tmp_path)
    real, deleted = shutil.rmtree, list[Path]()

    def interrupted(path: Path) -> None:
        real(path)
        deleted.append(path)
        assert not is_foreign(folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        for _ in "abcdefgh":
            with pytest.raises(KeyboardInterrupt):
                prepare(folder, fresh=True)
    prepare(folder, fresh=True)
    assert [file.name for file in folder.iterdir()] == [OURS]
    assert len(deleted) == len("abcdefgh")
    assert tmp_path.exists()


@pytest.mark.parametrize("left", [b"", b'{"jwt": "abc', b"\xff\xfe", b'["jwt"]', b'{"jwt": 1}'])
def test_broken_secrets_hinder_a_plain_start_and_not_a_fresh_one(tmp_path: Path, left: bytes) -> None:
    """A plain start says in a sentence what to do; a fresh one makes new ones, as it deletes these."""
    fleet = Fleet(tmp_path / "fleet", PlayedStory(boxes=40), Doors.beginning_at(free_row(len(ALL))))
    prepare(fleet.folder, fresh=True)
    write_private(fleet.folder / "secrets.json", left)
    (hindrance,) = hindrances(fleet, fresh=False)
    assert f"{fleet.folder / 'secrets.json'} holds no secrets" in hindrance
    assert "--fresh" in hindrance
    assert (fleet.folder / "secrets.json").read_bytes() == left
    assert list(hindrances(fleet, fresh=True)) == []
    prepare(fleet.folder, fresh=True)
    write_settings(fleet)
    assert list(hindrances(fleet, fresh=False)) == []


def test_secrets_are_whole_whatever_ends_their_writing(tmp_path: Path) -> None:
    """Those of before are there when it breaks off; once written, nobody else can read them, and nothing lies beside."""
    file = tmp_path / "secrets.json"
    kept = Secrets(file)
    first = kept.of("jwt")
    kept.keep()
    kept.of("clerk's password")
    with files_of_at_most(16), pytest.raises(OSError, match=rf"\[Errno {errno.EFBIG}\]"):
        kept.keep()
    assert Secrets(file).of("jwt") == first
    kept.keep()
    assert Secrets(file).of("clerk's password") == kept.of("clerk's password")
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--fresh", "--folder", str(tmp_path), "--first-port", str(free_row(len(ALL)))])
    assert ended.value.code == 2
    assert codes_of(ended.value) == ["demo_not_ready"]
    assert "no demo's" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "mine"
