"""Goal: the process in which Spark asks the source for its offsets ends without a word when Spark leaves, and tells all other trouble."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql.types import StructType

from hq.source import LandfallSource

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
NO_FILES, READER_MADE, BATCH_RECORDS_MAX = 0, 0, 100
NO_SUCH_CALL = 999


def words_of_the_runner(folder: Path, last_call: int | None) -> str:
    """What PySpark's own runner says on stderr when Java, whose part is played here, makes the source's reader, calls it, and leaves."""
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{short}/java")
        door.listen()
        door.settimeout(60)
        environment = {**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": f"{short}/java"}
        runner = subprocess.Popen([sys.executable, "-m", RUNNER], env=environment, stderr=subprocess.PIPE)
        try:
            java, _ = door.accept()
            java.settimeout(60)
            with java, java.makefile("wb") as file:
                assert _int(java) == runner.pid
                for text in (f"{sys.version_info.major}.{sys.version_info.minor}".encode(), short.encode()):
                    file.write(_framed(text))
                file.write(struct.pack("!i", NO_FILES))
                source = LandfallSource({"folder": str(folder), "streams": "containers"})
                for text in (pickle.dumps(source), StructType().json().encode()):
                    file.write(_framed(text))
                file.write(struct.pack("!i", BATCH_RECORDS_MAX))
                file.flush()
                assert _int(java) == READER_MADE
                java.shutdown(socket.SHUT_RD)  # nobody hears it any more
                if last_call is not None:
                    file.write(struct.pack("!i", last_call))
            return runner.communicate()[1].decode()
        finally:
            runner.kill()
            runner.wait()


def _int(java: socket.socket) -> int:
    (number,) = struct.unpack("!i", java.recv(4, socket.MSG_WAITALL))
    assert isinstance(number, int)
    return number


def _framed(text: bytes) -> bytes:
    return struct.pack("!i", len(text)) + text


def test_it_ends_without_a_word_when_spark_leaves(tmp_path: Path) -> None:
    assert words_of_the_runner(tmp_path, last_call=None) == ""


def test_other_trouble_is_told_though_spark_has_left(tmp_path: Path) -> None:
    assert "UNSUPPORTED_OPERATION" in words_of_the_runner(tmp_path, NO_SUCH_CALL)
