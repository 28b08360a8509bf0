"""Servers at a node's address that are not nodes: another server, a proxy, a network's sign-in page."""

from __future__ import annotations

from streams.model.errors import RetryLater


def no_node(url: str, status: int) -> RetryLater:
    """Return the error for an answer from `url`, of this HTTP status, that is not a node's: a node may be there again later."""
    return RetryLater(
        f"what answers at {url} does not answer as a node (HTTP {status})",
        hint="look what stands at that address: another server, a proxy, a network's sign-in page; the log of the node if it is one",
        code="not_a_node",
    )
