"""`landfall …` in this process: what it prints and how it ends."""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from subprocess import CompletedProcess

import pytest

import streams.memory_release
from landfall.cli.main import main
from tests.support.refusals import coded


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Its exit code, what it printed, and its complaints with line ends as blanks, after the code in brackets of an error that ended it."""
    ended = SystemExit(0)
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        ended = end
    printed = capsys.readouterr()
    return int(ended.code or 0), printed.out, coded(ended, " ".join(printed.err.split()))


def called(*words: object, encoding: str = "utf-8", errors: str = "strict") -> CompletedProcess[str]:
    """The same, its complaints as they are, for a test that captures nothing, as of a process with PYTHONIOENCODING `encoding:errors`: the
    start of a real one takes most of a second of processor time.
    """
    out, err = TextIOWrapper(BytesIO(), encoding, errors), TextIOWrapper(BytesIO(), encoding, "backslashreplace")
    ended = SystemExit(0)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            ended = end
    printed = []
    for one in (out, err):
        one.seek(0)
        printed.append(one.read())
    return CompletedProcess([*map(str, words)], int(ended.code or 0), printed[0], coded(ended, printed[1]))


@contextmanager
def process_here() -> Iterator[None]:
    """In the block a process of ours, like `landfall port`, may be called: what it changes in this process is restored afterwards.

    It finds none of our variables, and does not spare memory: that can not be taken back.
    """
    asked, logger, umask = signal.getsignal(signal.SIGTERM), logging.getLogger(), os.umask(0)
    os.umask(umask)
    handlers, level = list(logger.handlers), logger.level
    asyncio_logger = logging.getLogger("asyncio")
    filters = list(asyncio_logger.filters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", sys.unraisablehook)
        patch.setattr(streams.memory_release, "spare_memory", lambda: None)
        for name in [name for name in os.environ if name.startswith("LANDFALL_")]:
            patch.delenv(name)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, asked)
            os.umask(umask)
            logger.handlers[:] = handlers
            asyncio_logger.filters[:] = filters
            logger.setLevel(level)


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """This process can write no file further than that: not what Python compiles either, so import nothing in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
