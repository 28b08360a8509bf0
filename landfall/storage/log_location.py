"""The place of a log in a node's folder, and how another log takes that place: by one rename, or inside a mount entry by entry."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from landfall.storage.disk import Disk
from streams.commit_points import commit_point
from streams.model.errors import Misuse

LOCK_NAME = "lock"
REPLACED_MAX = 10_000
"""Number of replaced logs that may lie next to a log."""
_COPYING, _COPIED, _REPLACING = "restoring", "restored", "being-replaced"
"""Folders inside a mount: the copy while it is made; the whole copy; the old log while its entries are moved there."""
_REPLACED = "replaced-"
_KEPT = frozenset({LOCK_NAME, _COPYING, _COPIED, _REPLACING, "lost+found"})
"""Entries of a mount that are no part of the log in it."""
_AGAIN = "run `landfall log restore` again"
DISK = Disk()


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The place of the log of the node in `home`. `log` is its folder after all links are resolved. `inside`: only the contents of the
    folder can be replaced.
    """

    home: Path
    log: Path
    inside: bool

    @classmethod
    def of(cls, home: Path) -> LogPlace:
        """Return the place of the log in `home`. Raises Misuse where no log can be put: behind a broken link, or where a part lies
        elsewhere.
        """
        named = home / "log"
        if named.is_symlink() and not named.exists() and not _restored_copy(named).exists():
            what = f"{named} is a link to {named.resolve()}, which is not there"
            raise Misuse(what, hint="make that folder, or mount its disk; or remove the link", code="log_link_broken")
        log = named.resolve()
        for entry in log.iterdir() if log.is_dir() else ():
            if entry.is_symlink() or is_mount(entry):
                what = f"{entry} is a {'link' if entry.is_symlink() else 'mount'}: the log in {log} is not in one place"
                raise Misuse(what, hint="link or mount the log's whole folder, not a part of it", code="log_in_parts")
        return cls(home, log, log.is_dir() and (is_mount(log) or not os.access(log.parent, os.W_OK | os.X_OK)))

    @property
    def copy(self) -> Path:
        """The folder that the other log is copied to, on the disk where it stays."""
        return self.log / _COPYING if self.inside else _restored_copy(self.log)

    def check(self) -> None:
        """Raise PermissionError where the node's marker could not be removed: then nothing is begun."""
        above = next(folder for folder in (self.home.absolute(), *self.home.absolute().parents) if folder.exists())
        if not os.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(above))

    def unfinished(self) -> Path | None:
        """Return the log that an interrupted restore left to be put in place; None if there is none."""
        left = self.log / _COPIED if self.inside else _restored_copy(self.log)
        return left if left.exists() else None

    def finish(self) -> None:
        """Finish a restore that was interrupted inside a mount. Do nothing if there is none. Raises OSError."""
        if self.inside and (self.log / _COPIED).exists():
            self.end()

    def begin(self) -> Path | None:
        """Begin to make `copy`, which is whole and on the disk, the log. No node starts until `end` is called (`check_finished`).

        Returns where the old log lies now if it was moved as a whole. Raises OSError; then the old log and the marker are as they were.
        """
        if self.inside:
            (self.log / _REPLACING).mkdir(exist_ok=True)
            self.copy.rename(self.log / _COPIED)
            DISK.sync_folder(self.log)
            return None
        aside = None
        if self.log.exists():
            aside = _free(self.log.parent, f"{self.log.name}.{_REPLACED}")
            self.log.rename(aside)
        commit_point("log.restore.aside")
        return aside

    def end(self) -> Path | None:
        """Remove the marker and make the copy the log. Return where the old log lies now if its entries were moved. Raises OSError."""
        (self.home / "marker").unlink(missing_ok=True)
        DISK.sync_folder(self.home)
        if self.inside:
            return self._replace_entries()
        self.copy.rename(self.log)
        DISK.sync_folder(self.log.parent)
        return None

    def _replace_entries(self) -> Path | None:
        """Move the entries of the old log into its folder while that folder exists, then move the entries of the copy here."""
        copied, replacing, aside = self.log / _COPIED, self.log / _REPLACING, None
        if replacing.exists():
            for entry in self._entries():
                entry.rename(replacing / entry.name)
                commit_point("log.restore.entry.aside")
            if any(replacing.iterdir()):
                aside = _free(self.log, _REPLACED)
                replacing.rename(aside)
            else:
                replacing.rmdir()
            DISK.sync_folder(self.log)
        commit_point("log.restore.aside")
        for entry in list(copied.iterdir()):
            entry.rename(self.log / entry.name)
            commit_point("log.restore.entry")
        DISK.sync_folder(self.log)
        copied.rmdir()
        DISK.sync_folder(self.log)
        return aside

    def _entries(self) -> list[Path]:
        return [entry for entry in self.log.iterdir() if entry.name not in _KEPT and not entry.name.startswith(_REPLACED)]


def check_finished(log: Path) -> None:
    """Raise Misuse when a restore into the folder `log` was interrupted: the contents of the folder, if any, are then not a log."""
    left = _restored_copy(log.resolve())
    if not log.exists() and left.exists():
        hint = f"{_AGAIN}; to begin with an empty log instead, remove {left.name}"
        what = f"there is no log in {log.parent}, but what a restore left when it was interrupted"
        raise Misuse(what, hint=hint, code="restore_unfinished")
    if (log / _COPIED).exists():
        what = f"the log in {log} is half replaced: a restore was interrupted"
        raise Misuse(what, hint=f"{_AGAIN}: it ends what was begun", code="restore_unfinished")


def is_mount(path: Path) -> bool:
    """Return whether another disk or folder is mounted at `path`, including a folder of the same file system."""
    if os.path.ismount(path):
        return True
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    return str(path.resolve()) in {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in lines}


def _restored_copy(log: Path) -> Path:
    real = log.resolve()
    return real.with_name(f"{real.name}.restored")


def _free(folder: Path, prefix: str) -> Path:
    """Return a name in `folder` that is not taken: `prefix` and the least free number."""
    return next(place for n in range(1, REPLACED_MAX) if not (place := folder / f"{prefix}{n}").exists())
