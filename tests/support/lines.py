"""Which lines of the product the tests reach, in the process of the tests and in every one that these start, killed or not.

With `COVERAGE=1` the Makefile puts `tests/support/measured` on PYTHONPATH, so that each process of Python calls `start` first. From then on
the product's modules are compiled with marks: where lines are reached for the first time, a byte of a file that all processes share is set.
`python -m tests.support.lines` has coverage.py report on them, and ends with 2 below the `fail_under` of pyproject.toml.

A mark costs some nanoseconds; the tracer of coverage.py makes pure Python up to four times slower on Python 3.11, and loses what a killed
process had reached. Statements that follow each other share one mark, before the last of them: where one of them raised, none of them
counts.
"""

from __future__ import annotations

import ast
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("cargo", "dashboards", "edge", "hq", "intake", "landfall", "shore", "sim", "streams")
REACHED = ROOT / ".cache" / "lines"
DATA = ROOT / ".cache" / "coverage"
LINES_MAX = 512
"""A module has fewer lines: tests/test_tidy.py allows 400."""
SUFFIX = ".marked"
"""What compiled modules with marks are called beside those without."""
LINE, NEW = "_line_reached_", "_new_lines_"
"""Names in a module with marks: the function `reached`, and the list that `new_lines` returns."""

_shared: mmap.mmap | None = None
_places: dict[str, int] = {}
"""Where in the shared file the bytes of each module begin."""


def product_files() -> list[str]:
    """Return all modules of the product, by path from ROOT, sorted."""
    return sorted(str(path.relative_to(ROOT)) for name in PRODUCT for path in (ROOT / name).rglob("*.py"))


def start() -> None:
    """Count lines in this process, and in those that are forked from it, from now on."""
    global _shared
    files = product_files()
    _places.update({file: place * LINES_MAX for place, file in enumerate(files)})
    REACHED.parent.mkdir(exist_ok=True)
    descriptor = os.open(REACHED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    os.ftruncate(descriptor, len(files) * LINES_MAX)
    _shared = mmap.mmap(descriptor, len(files) * LINES_MAX)
    os.close(descriptor)
    for name, method in (("source_to_code", _source_to_code), ("get_data", _get_data), ("set_data", _set_data)):
        setattr(SourceFileLoader, name, method)


def new_lines(file: str) -> list[int]:
    """Return what the marks of a module look at: for each line whether it is still to be reached; before them, the module's place."""
    return [_places.get(file, 0), *[1] * LINES_MAX]


def reached(new: list[int], line: int) -> None:
    """Set the byte of `line`, which is reached for the first time in this process."""
    new[line] = 0
    if _shared is not None:
        _shared[new[0] + line] = 1


def marked(source: str | bytes, file: str) -> ast.Module:
    """Return the module with a mark before the last statement of each row of statements."""
    tree = ast.parse(source, file)
    for _, body, rows in list(_bodies(tree)):
        for row in reversed(rows):
            at = max(row.stop - 1, _begin(body))
            body.insert(at, _mark(body[row.stop - 1]))
    prelude = f"from tests.support.lines import new_lines as {NEW}, reached as {LINE}\n{NEW} = {NEW}({file!r})"
    begin = _begin(tree.body)
    tree.body[begin:begin] = ast.parse(prelude).body
    return ast.fix_missing_locations(tree)


def lines_by_mark(source: str) -> dict[int, set[int]]:
    """Return the lines of statements that each mark stands for, by the line that the mark sets."""
    found: dict[int, set[int]] = {}
    for node, body, rows in _bodies(ast.parse(source)):
        for row in rows:
            lines = found.setdefault(body[row.stop - 1].lineno, set())
            lines.update(line for one in body[row.start : row.stop] for line in _lines(one))
            if isinstance(node, ast.ExceptHandler):
                lines.add(node.lineno)
            elif isinstance(node, ast.match_case):
                lines.add(node.pattern.lineno)
    return found


def _bodies(tree: ast.AST) -> Iterator[tuple[ast.AST, list[ast.stmt], list[range]]]:
    """Every list of statements, of which node it is, and its rows: simple statements up to the next compound one."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body:
                yield node, body, list(_rows(body))


def _rows(body: Sequence[ast.stmt]) -> Iterator[range]:
    first = 1 if _is_docstring(body[0]) else 0
    for at in range(first, len(body)):
        if at + 1 == len(body) or hasattr(body[at], "body") or isinstance(body[at], ast.Match):
            yield range(first, at + 1)
            first = at + 1


def _begin(body: Sequence[ast.stmt]) -> int:
    """Where the first mark may stand: behind a docstring and imports from the future."""
    at = 1 if _is_docstring(body[0]) else 0
    while at < len(body) and isinstance(one := body[at], ast.ImportFrom) and one.module == "__future__":
        at += 1
    return at


def _is_docstring(one: ast.stmt) -> bool:
    return isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)


def _mark(before: ast.stmt) -> ast.stmt:
    [mark] = ast.parse(f"{NEW}[{before.lineno}] and {LINE}({NEW}, {before.lineno})").body
    for node in ast.walk(mark):
        ast.copy_location(node, before)
    return mark


def _lines(one: ast.stmt) -> Iterator[int]:
    """The lines that coverage.py counts as statements with it: its first, and those of its decorators."""
    yield one.lineno
    yield from (decorator.lineno for decorator in getattr(one, "decorator_list", ()))


def _file_of(path: str) -> str | None:
    """Return the path from ROOT of a module of the product, or of its compiled form; None for any other."""
    file = os.path.relpath(path, ROOT)
    return file if file.partition(os.sep)[0] in PRODUCT else None


_compiled, _read, _written = SourceFileLoader.source_to_code, SourceFileLoader.get_data, SourceFileLoader.set_data


def _source_to_code(self: SourceFileLoader, data: Any, path: Any, **more: Any) -> CodeType:
    file = _file_of(os.fsdecode(path))
    return _compiled(self, data if file is None else marked(data, file), path, **more)


def _get_data(self: SourceFileLoader, path: str) -> bytes:
    return _read(self, _beside(path))


def _set_data(self: SourceFileLoader, path: str, data: Any, **more: Any) -> None:
    _written(self, _beside(path), data, **more)


def _beside(path: str) -> str:
    return path + SUFFIX if path.endswith(".pyc") and _file_of(path) is not None else path


def write_data() -> None:
    """Write what was reached as data of coverage.py. Raises FileNotFoundError when nothing was counted."""
    from coverage import CoverageData

    reached_bytes = REACHED.read_bytes()
    DATA.unlink(missing_ok=True)
    data = CoverageData(str(DATA))
    for place, file in enumerate(product_files()):
        marks = lines_by_mark((ROOT / file).read_text())
        lines = set().union(*(lines for line, lines in marks.items() if reached_bytes[place * LINES_MAX + line]))
        data.add_lines({str(ROOT / file): lines})
    data.write()


def report() -> int:
    """Print the lines that nothing reached, by file, and how many percent were. Return 0, or 2 when that is below `fail_under`."""
    from coverage.cmdline import main

    write_data()
    code = main(["report", f"--data-file={DATA}"])
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(report())
