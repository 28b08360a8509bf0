"""Where a request of the pages comes from: they name the browser's address to the API, by a token that the two of them share."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from ipaddress import ip_address

from pydantic import SecretStr

PAGES_TOKEN, BROWSER = "Landfall-Pages-Token", "Landfall-Browser-Address"
"""The headers of such a request."""


def browser_headers(token: SecretStr | None, address: str | None) -> dict[str, str]:
    """Return the headers that name the browser's address; none where it, or the token, is not known."""
    if token is None or address is None:
        return {}
    return {PAGES_TOKEN: token.get_secret_value(), BROWSER: address}


def browser_address(headers: Mapping[str, str], token: SecretStr | None) -> str | None:
    """Return the address that the pages name; None where none is named, it is no address, or the sender does not show the token."""
    if token is None or not hmac.compare_digest(headers.get(PAGES_TOKEN, "").encode(), token.get_secret_value().encode()):
        return None
    try:
        return str(ip_address(headers.get(BROWSER, "")))
    except ValueError:
        return None
