"""HTTP headers that keep what an answer holds out of other sites' frames, of caches, and of guesses at its type."""

from __future__ import annotations

from typing import Final

POLICY = "Content-Security-Policy"
CACHING = "Cache-Control"
NO_STORE: Final = "no-store"
DATA_HEADERS: Final[dict[str, str]] = {
    POLICY: "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    CACHING: NO_STORE,
}
"""Headers of an answer that holds data and no page. An answer that sets one of them itself keeps its own."""
