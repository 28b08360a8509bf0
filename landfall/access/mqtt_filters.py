"""MQTT topic filters, as the credentials of gateways have them."""

from __future__ import annotations

import re
from functools import lru_cache

PATTERNS_MAX = 4_096


@lru_cache(PATTERNS_MAX)
def topic_pattern(mqtt_filter: str) -> re.Pattern[bytes]:
    """Return a pattern that matches what `mqtt_filter` matches (an MQTT topic filter with `+` and `#`). Raises ValueError for an invalid
    filter."""
    levels = mqtt_filter.split("/")
    if not mqtt_filter or any(("+" in level and level != "+") or ("#" in level and level != "#") for level in levels) or "#" in levels[:-1]:
        raise ValueError(
            f"{mqtt_filter!r} is no MQTT topic filter: '+' stands for one whole level, '#' for all that follow, at the end only"
        )
    if levels == ["#"]:
        return re.compile(rb".*", re.DOTALL)
    pattern = "/".join("[^/]*" if level == "+" else re.escape(level) for level in levels if level != "#")
    return re.compile((pattern + ("(?:/.*)?" if levels[-1] == "#" else "")).encode(), re.DOTALL)


def matches(mqtt_filter: str, mqtt_topic: str) -> bool:
    """Return whether `mqtt_filter` matches `mqtt_topic`; what is no filter matches nothing."""
    try:
        return topic_pattern(mqtt_filter).fullmatch(mqtt_topic.encode()) is not None
    except ValueError:
        return False
