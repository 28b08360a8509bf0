"""Goal: whatever encoding standard output has, every command says all it has to say, and its JSON is JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cargo.vocabulary.payload_schema import payload_schema
from landfall.storage.file_log import FileLog
from streams.codec import BlockCodec
from streams.log import Append
from streams.model.clock import StillClock
from streams.model.records import Record, to_batch
from tests.landfall.commands import called

ROOT = Path(__file__).resolve().parents[2]
CARGO = 'ducks "é" \u0416 \u9d28 \U0001f986'
TEXT = {
    "ascii": r"ducks \"\u00e9\" \u0416 \u9d28 \ud83e\udd86",
    "latin-1": r"ducks \"é\" \u0416 \u9d28 \ud83e\udd86",
    "cp1251": r"ducks \"\u00e9\" \u0416 \u9d28 \ud83e\udd86".replace(r"\u0416", "\u0416"),
    "utf-8": CARGO.replace('"', r"\""),
}
"""The record's body text as JSON has it in each encoding."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    log = FileLog(tmp_path / "log", tmp_path / "marker", "tokyo", BlockCodec(), StillClock())
    log.append([Append("containers", to_batch([Record("MSKU1234565", device="Gerät", body={"cargo": CARGO})]))])
    log.close()
    return tmp_path


@pytest.mark.parametrize("encoding", sorted(TEXT))
def test_json_is_the_same_in_every_encoding_and_text_falls_back_to_escapes(home: Path, encoding: str) -> None:
    for words in (("cat", "containers"), ("tail", "containers"), ("history", "MSKU1234565")):
        done = called("log", *words, "-f", home, "--format", "json", encoding=encoding)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert TEXT[encoding] in done.stdout
        told = json.loads(done.stdout)
        assert (told["device"], told["body"]) == ("Gerät", {"cargo": CARGO})
        done = called("log", *words, "-f", home, encoding=encoding)
        assert (done.returncode, done.stderr, "MSKU1234565" in done.stdout) == (0, "", True)
        assert ("Gerät" if encoding in ("latin-1", "utf-8") else r"Ger\u00e4t") in done.stdout


def test_lists_and_names_of_files_are_told_too(home: Path) -> None:
    for words in (("ls",), ("gaps", "containers"), ("check",)):
        done = called("log", *words, "-f", home, encoding="ascii")
        assert (done.returncode, done.stderr) == (0, ""), words
    name = "\udcff\u9d28.csv"
    done = called("log", "export", "containers", "-f", home, "-o", home / name)
    assert (done.returncode, r"\udcff" in done.stdout, "\u9d28" in done.stdout) == (0, True, True)
    assert (home / name).is_file()


def test_what_the_environment_says_of_such_letters_holds(home: Path) -> None:
    done = called("log", "cat", "containers", "-f", home, encoding="ascii", errors="replace")
    assert (done.returncode, "device=Ger?t" in done.stdout) == (0, True)


def test_what_is_said_without_a_table_is_escaped_too() -> None:
    for encoding, letter in (("ascii", r"\u00b0"), ("latin-1", "°"), ("utf-8", "°")):
        done = called("payload", "schema", encoding=encoding)
        assert (done.returncode, done.stderr, json.loads(done.stdout)) == (0, "", payload_schema())
        assert letter in done.stdout


def test_all_of_it_goes_the_one_way() -> None:
    """Typer's own echo takes an ASCII screen for a mistake."""
    echoing = [str(file) for file in sorted((ROOT / "landfall").rglob("*.py")) if "typer.echo" in file.read_text(encoding="utf-8")]
    assert echoing == []
