"""Goal: documents, docstrings and comments are in plain English: none of the project's old private words; in documents no sentence that a
reader must read twice."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [Path(name) for name in subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).splitlines()]
WORDS = (
    "told|tells?|heard of|dear|beside|let go|goes by|go by|held against|purse|hearsay|mend|mended|mends|anew|a while ago|whoever"
    "|she|her|hers"
)
"""STYLE: each has a standard term (report, received, metered, next to, disconnect, uses, checked against, budget, fix, again, the ship)."""
BANNED = re.compile(rf"\b(?:{WORDS})\b", re.IGNORECASE)
BANNED_IN_NAMES = re.compile("told|tells?|teller|telling|untold|dear|beside|purses?|hearsay|mend|mended|mends|anew|whoever")
STORED_NAMES = {"told", "told_from", "told_from_ms", "out_told_ms", "owner_told", "beside"}
"""Fields of state files, records, answers and proof files: they are read back by these names."""
STORED_IN = (
    "cargo/alerts/alert_timestamps.py", "cargo/loss/", "cargo/rules/", "cargo/shore_rules/", "cargo/vocabulary/registry_",
    "edge/services/query_responder.py", "hq/api/endpoints/fleet.py", "hq/api/muster_answers.py", "landfall/cli/judge_commands.py",
    "streams/integrity/proof_file.py",
)  # fmt: skip
OF_PYTHON = {"tell"}
"""Methods of files."""
SENTENCE_WORDS_MAX = 35
BEGUN_OTHERWISE = re.compile(
    "What|Whether|How|Who|Whose|Which|When|Where|Why|The|A|An|"
    "Adds|Begins|Closes|Gives|Keeps|Makes|Raises|Reads|Returns|Runs|Says|Sends|Starts|Takes|Waits|Writes"
)
UNTOUCHED = ("hq/analytics/", "hq/source.py", "tests/")
"""Python that is not looked at: what a later issue writes again, and the tests."""
MODULES = [
    Path(name)
    for name in subprocess.check_output(["git", "ls-files", "*.py"], cwd=ROOT, text=True).splitlines()
    if not name.startswith(UNTOUCHED)
]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_is_in_plain_words(page: Path) -> None:
    text = prose_of((ROOT / page).read_text(encoding="utf-8"))
    assert BANNED.findall(text) == []
    assert [sentence for sentence in sentences_of(text) if len(re.findall(r"\w+", sentence)) > SENTENCE_WORDS_MAX] == []


def test_docstrings_and_comments_are_in_plain_words() -> None:
    wrong = []
    for module in MODULES:
        for line, text in written_in((ROOT / module).read_text(encoding="utf-8")):
            wrong += [f"{module}:{line}: {word}" for word in banned_in(text)]
    assert wrong == []


def test_a_banned_word_in_a_docstring_or_a_comment_is_found() -> None:
    source = 'def send() -> None:\n    """It is told; `told` is a name."""\n    told = "told"  # beside it\n'
    assert [(line, banned_in(text)) for line, text in written_in(source)] == [(2, ["told"]), (3, ["beside"])]


def test_names_are_in_plain_words() -> None:
    wrong = []
    for module in MODULES:
        allowed = OF_PYTHON | (STORED_NAMES if str(module).startswith(STORED_IN) else set())
        names = names_of((ROOT / module).read_text(encoding="utf-8"))
        wrong += [f"{module}: {name}" for name in sorted(names - allowed) if has_banned_word(name)]
    assert wrong == []


def test_a_banned_word_in_a_name_is_found() -> None:
    source = "class ToldTwice:\n    def send(self, tells_all: int) -> None:\n        self.foretold = _beside(tells_all)\n"
    assert {name for name in names_of(source) if has_banned_word(name)} == {"ToldTwice", "tells_all", "_beside"}


def names_of(source: str) -> set[str]:
    """Names of variables, attributes, arguments, functions and classes."""
    nodes = list(ast.walk(ast.parse(source)))
    names = (getattr(node, kind, None) for node in nodes for kind in ("id", "attr", "arg", "name"))
    return {name for name in names if isinstance(name, str)}


def has_banned_word(name: str) -> bool:
    return any(BANNED_IN_NAMES.fullmatch(word.lower()) for word in re.findall("[A-Z]?[a-z]+", name))


def test_a_functions_docstring_says_what_the_function_does() -> None:
    """In the imperative: "Return whether …", not "Whether …" or "Returns …". A property's is a noun phrase."""
    wrong = []
    for module in MODULES:
        if module.parts[0] != "bench":
            wrong += [f"{module}:{line}: {first}" for line, first in begun_otherwise((ROOT / module).read_text(encoding="utf-8"))]
    assert wrong == []


def test_a_docstring_that_begins_otherwise_is_found() -> None:
    functions = ("Whether it is so.", "Sends it.", "Send it.")
    source = "".join(f'def function() -> None:\n    """{text}"""\n' for text in functions)
    assert begun_otherwise(source) == [(1, "Whether"), (3, "Sends")]


def begun_otherwise(source: str) -> list[tuple[int, str]]:
    """The lines of functions whose docstrings begin with a question word, an article or a verb of the third person, and that word."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            first = text.split()[0]
            is_property = any(isinstance(each, ast.Name) and each.id.endswith("property") for each in node.decorator_list)
            if not is_property and BEGUN_OTHERWISE.fullmatch(first):
                found.append((node.lineno, first))
    return found


def banned_in(text: str) -> list[str]:
    """The banned words of a text, but for names of code."""
    return BANNED.findall(re.sub(r"`[^`]*`", "X", text))


def written_in(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.start[0], token.string


def prose_of(text: str) -> str:
    """The text without code and without the targets of links."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "X", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of paragraphs and lists; tables and headings have none."""
    lines = [line for line in text.split("\n") if not line.lstrip().startswith(("|", "#"))]
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", "\n".join(lines)):
        yield from re.split(r"(?<=[.!?:;])\s+", paragraph.replace("\n", " "))
