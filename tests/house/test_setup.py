"""Set-up tells all that is wrong at once, shows what it does, and does nothing twice."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.containers.compose import Compose, Unwell
from deploy.setup import __main__ as setup
from deploy.setup import checks, debian, packages, setup_folders
from deploy.setup.setup_progress import StepFailed, run
from landfall.demo import local_ports
from landfall.demo.fleet_settings import Doors


def test_python_alone_is_enough_to_begin() -> None:
    """Set-up, and the look at the fleet in containers, import no library that set-up has yet to bring."""
    command = (sys.executable, "-S", "-c", "import deploy.setup.__main__, deploy.containers.__main__")
    done = subprocess.run(command, cwd=setup_folders.ROOT, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Version(NamedTuple):
    major: int
    minor: int


class Disk(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def poor_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old Python without venv, a full disk, no memory, no browser, and nobody who may install one."""
    monkeypatch.setattr(sys, "version_info", Version(3, 9))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(10**10, 10**10 - 10**9, 10**9))
    monkeypatch.setattr(checks, "_memory_gb", lambda: 1.0)
    monkeypatch.setattr(debian, "missing", lambda: ["chromium", "mosquitto"])
    monkeypatch.setattr(debian, "_may_install", lambda: False)
    monkeypatch.setattr(packages, "are_ready", lambda for_tests: False)


@pytest.mark.usefixtures("poor_machine")
def test_all_problems_are_told_together_with_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["setup", "test"])
    assert setup.main() == 1
    told = capsys.readouterr().err
    for words in (
        "Python 3.9 is too old",
        "apt-get install python3-venv",
        "Only 1.0 GB are free",
        "1.0 GB of memory",
        "sudo apt-get update && sudo apt-get install --no-install-recommends chromium mosquitto",
    ):
        assert words in told


@pytest.mark.usefixtures("poor_machine")
@pytest.mark.parametrize(("purpose", "is_refused"), [("run", False), ("demo", True), ("test", True)])
def test_a_small_machine_may_run_one_node(
    purpose: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["setup", purpose])
    assert setup.main() == 1
    assert ("of memory" in capsys.readouterr().err) == is_refused


def test_git_that_the_tests_ask_is_missed_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, path=None: "/usr/bin/git" if name == "git" else found(name, path=path))
    assert "git" not in debian.missing()
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name == "git" else found(name, path=path))
    assert "git" in debian.missing()
    monkeypatch.setattr(debian, "_may_install", lambda: False)
    assert "git" in next(debian.problems()).split()


def test_a_port_in_use_is_named_and_a_free_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        problems = list(local_ports.in_use([port]))
    assert len(problems) == 1
    assert f"Port {port} is in use" in problems[0]
    assert list(local_ports.in_use([port])) == []


def test_a_failed_step_shows_its_last_lines_and_where_all_are(tmp_path: Path) -> None:
    script = "import sys\nfor n in range(100): print('line', n)\nsys.exit(3)"
    with pytest.raises(StepFailed) as failed:
        run("counting", (sys.executable, "-c", script), tmp_path / "log")
    assert "code 3" in str(failed.value)
    assert "line 99" in str(failed.value)
    assert "line 70\n" not in str(failed.value)
    assert "line 0" in (tmp_path / "log").read_text()


def test_a_step_says_what_it_does_and_how_long_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("a step", (sys.executable, "-c", "print('busy')"), tmp_path / "log")
    assert capsys.readouterr().out.startswith("· a step …\n✓ a step: ")


def test_a_demo_whose_ports_are_taken_does_not_begin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["setup", "demo"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr("landfall.demo.local_ports.ALL", (server.getsockname()[1],))
        assert setup.main() == 1
    assert "is in use" in capsys.readouterr().err


def test_the_ports_looked_at_are_those_the_demo_is_told_to_use(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    looked_at: list[int] = []

    def all_taken(wanted: Iterable[int]) -> Iterator[str]:
        looked_at.extend(wanted)
        yield "all are taken"

    monkeypatch.setattr("landfall.demo.local_ports.in_use", all_taken)
    monkeypatch.setattr(sys, "argv", ["setup", "demo", "--fresh", "--boxes", "40", "--first-port", "9100"])
    assert setup.main() == 1
    assert "all are taken" in capsys.readouterr().err
    assert sorted(looked_at) == sorted(Doors.beginning_at(9100).all())
    monkeypatch.setattr(sys, "argv", ["setup", "demo", "--help"])
    assert setup.main() == 1, "a demo's --help is the demo's to answer, once it is set up"


@pytest.mark.parametrize("purpose", [[], ["run"], ["test"], ["edge"]])
def test_set_up_tells_what_it_takes(purpose: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["setup", *purpose, "--help"])
    with pytest.raises(SystemExit) as ended:
        setup.main()
    assert ended.value.code == 0
    assert "run,demo,test,edge,shore,hq,pages,sim" in capsys.readouterr().out


@pytest.fixture
def steps_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The steps that were really taken, in an environment that no step has touched yet."""
    done: list[str] = []

    def make_environment() -> None:
        done.append("environment")
        setup_folders.stamp("environment", "here")

    monkeypatch.setattr(setup_folders, "STAMPS", tmp_path / "stamps.json")
    monkeypatch.setattr(packages, "_install", lambda lock: done.append(f"packages of {lock.name}"))
    monkeypatch.setattr(packages, "_install_landfall", lambda: done.append("landfall"))
    monkeypatch.setattr(packages, "_make_environment", make_environment)
    monkeypatch.setattr(packages, "_environment_digest", lambda: "here")
    return done


def test_what_is_done_is_not_done_again(steps_done: list[str]) -> None:
    packages.make_ready("test")
    assert steps_done == ["environment", "packages of requirements-dev.lock", "landfall"]
    assert packages.are_ready("test")
    packages.make_ready("test")
    assert len(steps_done) == 3


def test_a_step_that_failed_is_taken_again_and_those_before_it_are_not(steps_done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise StepFailed("no network")

    monkeypatch.setattr(packages, "_install_landfall", broken)
    with pytest.raises(StepFailed):
        packages.make_ready("run")
    assert not packages.are_ready("run")
    monkeypatch.setattr(packages, "_install_landfall", lambda: steps_done.append("landfall"))
    packages.make_ready("run")
    assert steps_done == ["environment", "packages of requirements.lock", "landfall"]


def test_a_role_has_the_packages_of_its_lock_alone(steps_done: list[str]) -> None:
    packages.make_ready("edge")
    assert steps_done == ["environment", "packages of requirements-edge.lock", "landfall"]
    assert not packages.are_ready("run")


def test_jars_that_are_there_are_not_fetched_for_another_purpose(steps_done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(setup, "_problems", lambda *_: iter(()))
    monkeypatch.setattr(setup, "run", lambda title, *_: fetched.append(title))
    monkeypatch.setattr("deploy.setup.debian.make_ready", lambda: None)
    for jars in ("locked_jars", "locked_kafka_jars"):
        monkeypatch.setattr(setup, jars, list)
    for purpose in ("edge", "test", "demo", "hq", "test"):
        monkeypatch.setattr(sys, "argv", ["setup", purpose])
        assert setup.main() == 0
    assert fetched == ["Spark's jars", "Kafka's jars"]


def test_another_lock_means_installing_again(steps_done: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packages.make_ready("run")
    lock = tmp_path / "requirements.lock"
    lock.write_text("other==1.0\n")
    monkeypatch.setattr(setup_folders, "RUN_LOCK", lock)
    assert not packages.are_ready("run")


def test_a_compose_that_is_not_there_is_named() -> None:
    with pytest.raises(Unwell, match="nowhere-compose is not there: install one, or name yours with --engine"):
        Compose("nowhere-compose")
