"""What a test asserts of a refusal: its code, and the values that its sentence names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import pytest
from pydantic import ValidationError

from streams.model.errors import LandfallError

Problem = TypeVar("Problem", bound=BaseException)


class Caught(Generic[Problem]):
    """What the block of `refusal` raised, once it has ended."""

    value: Problem


@contextmanager
def refusal(kind: type[Problem], code: str, *values: object) -> Iterator[Caught[Problem]]:
    """Assert that the block raises a `kind` with `code`, whose sentence names each of `values`.

    Of settings, `code` is the place of the setting that is refused.
    """
    caught = Caught[Problem]()
    with pytest.raises(kind) as raised:
        yield caught
    caught.value = raised.value
    assert code in codes_of(raised.value), f"{codes_of(raised.value)}: {raised.value}"
    for value in values:
        assert str(value) in str(raised.value)


def codes_of(problem: BaseException) -> list[str]:
    """Return the code of `problem`, which may be the end of a command or wrap what was raised; of settings the place of each fault."""
    if isinstance(problem, ValidationError):
        return [".".join(map(str, fault["loc"])) for fault in problem.errors()]
    cause: BaseException | None = problem.__context__ if isinstance(problem, SystemExit) else problem
    while cause is not None and not isinstance(getattr(cause, "code", None), str):
        cause = cause.__cause__
    return [] if cause is None else [str(getattr(cause, "code", ""))]


def link_codes(log: pytest.LogCaptureFixture, peer: str) -> list[str]:
    """Return the codes with which the nodes of this test logged that a session with `peer` ended, or that a link could not be opened."""
    lines = [record for record in log.records if record.msg.startswith(("left %s (%s)", "no link to %s yet (%s)"))]
    return [str(record.args[1]) for record in lines if isinstance(record.args, tuple) and record.args[0] == peer]


def coded(ended: SystemExit, complaint: str) -> str:
    """Return what a command complained, after the code in brackets of the error that ended it."""
    problem = ended.__context__
    return f"[{problem.code}] {complaint}" if isinstance(problem, LandfallError) else complaint
