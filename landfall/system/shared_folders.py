"""Folders that their group may read, and nobody else: logs and tables."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from streams.model.errors import Misuse

FOLDER_MODE = 0o750
CLOSED = 0o027
"""Mode bits that the folder itself may not have: write for the group, anything for others."""
UNWRITTEN = 0o022
"""Mode bits that nothing inside may have. Others that may read a file there do not reach it."""


def make_shared(folder: Path, group: str = "") -> None:
    """Make the folder where it is missing, and see that its group may read what is in it and nobody else may.

    An empty folder gets the mode 0750. `group` is the name of the group that gets the folder, all that is in it and all that is made
    there later; "" leaves the group as it is. Raises Misuse (`folder_open`) where the group may write there or others may read there,
    Misuse (`group_unknown`, `group_refused`) where the group can not have it, else OSError.
    """
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        with suppress(PermissionError):  # another user's: its mode decides
            folder.chmod(FOLDER_MODE)
    _check_closed(folder)
    if group:
        _give(folder, group)


def let_group_through(folder: Path, group: str) -> None:
    """Let the group pass through the folder to one inside; nothing else in it changes hands. Raises Misuse, OSError as `make_shared`."""
    status, group_id = folder.stat(), _group_id(group)
    if status.st_gid != group_id and not status.st_mode & stat.S_IXOTH:
        _change_group(folder, group, group_id)


def _check_closed(folder: Path) -> None:
    opened = [folder] if folder.stat().st_mode & CLOSED else [path for path, status in _inside(folder) if status.st_mode & UNWRITTEN]
    if opened:
        mode = stat.S_IMODE(opened[0].stat().st_mode)
        what = f"{opened[0]} can be written by its group, or read by others (mode {mode:04o})"
        raise Misuse(what, hint=f"chmod -R g-w,o-rwx {folder}", code="folder_open")


def _give(folder: Path, group: str) -> None:
    """Give the folder and its content to the group. The folder itself comes last: where it has the group, all of it has."""
    status, group_id = folder.stat(), _group_id(group)
    if status.st_gid == group_id and status.st_mode & stat.S_ISGID:
        return
    for path, inside in _inside(folder):
        _change_group(path, group, group_id)
        if stat.S_ISDIR(inside.st_mode):
            path.chmod(stat.S_IMODE(inside.st_mode) | stat.S_ISGID)
    _change_group(folder, group, group_id)
    folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_ISGID)


def _inside(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield every file and folder below the folder, with its status; links are left out."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            with suppress(FileNotFoundError):  # a reader's or an earlier writer's, gone meanwhile
                status = path.lstat()
                if not stat.S_ISLNK(status.st_mode):
                    yield path, status


def _group_id(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        what = f"there is no group {group!r} on this machine"
        raise Misuse(what, hint=f"groupadd {group}, or change `group`", code="group_unknown") from None


def _change_group(path: Path, group: str, group_id: int) -> None:
    try:
        os.chown(path, -1, group_id)
    except PermissionError as problem:
        hint = f"let the user that runs this own {path} and be a member of {group}, or take `group` out"
        raise Misuse(f"{path} can not be given to the group {group}", hint=hint, code="group_refused") from problem
