"""How far the story has come, kept in a file so that a plain start goes on where the last one stopped."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sim.story_clock import Setting
from streams.model.errors import Corrupt, Misuse


class StoryProgress(msgspec.Struct, frozen=True):
    """Every reading heard before `fleet_at_ms` (UTC ms) is acknowledged, and the first `papers` of the clerk's are accepted.

    `story` names the settings that make the story what it is: with others this progress means nothing.
    """

    story: str
    fleet_at_ms: int
    papers: int
    setting: Setting


def load_progress(path: Path, story: str) -> StoryProgress | None:
    """Return the progress in the file; None when there is no file. Raises Misuse when it is another story's, Corrupt when unreadable."""
    try:
        progress = msgspec.json.decode(path.read_bytes(), type=StoryProgress)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as problem:
        raise Corrupt(
            f"{path} does not say how far the story has come: {problem}", hint="start again with --fresh", code="progress_unreadable"
        ) from problem
    if progress.story != story:
        raise Misuse(
            f"the story under way is {progress.story}, not {story}",
            hint="set it back, or start again with --fresh",
            code="story_of_another",
        )
    return progress


def save_progress(path: Path, progress: StoryProgress) -> None:
    """Keep it durably: after a power cut the file holds this or what it held before."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(msgspec.json.encode(progress))
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
