"""Classes that Java loaded once, kept in a file that its next starts map (class data sharing): loading them is most of a start."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

KEPT = "classes-*.jsa"
"""How the files are called in their folder."""


def kept_classes(folder: Path, java_home: Path) -> Path:
    """The file in `folder` of what this Java loaded: there once `keep_classes` ran with it. Another Java has another."""
    release = java_home / "release"
    return folder / f"classes-{digest(str(java_home.resolve()), release.read_text() if release.is_file() else '')}.jsa"


def keep_classes(kept: Path, java_home: Path, names: Path, options: Sequence[str]) -> bool:
    """`kept` is there, of the classes that `names` lists, and True returned; False where this Java keeps none.

    `names`: written by `-XX:DumpLoadedClassList`; `options`: the class path, and what else the starts to come have for modules. It comes
    into its place whole.
    """
    fresh = kept.with_suffix(".fresh")
    dump = ("-Xshare:dump", "-Xlog:disable", "-Xlog:all=error", f"-XX:SharedClassListFile={names}", f"-XX:SharedArchiveFile={fresh}")
    done = subprocess.run([str(java_home / "bin" / "java"), *dump, *options], check=False).returncode == 0
    if done:
        fresh.replace(kept)
    fresh.unlink(missing_ok=True)
    return done


def digest(*words: str) -> str:
    """A name for what was made of these words, of 16 digits."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
