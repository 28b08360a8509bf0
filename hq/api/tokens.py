"""Bearer tokens: who holds one has logged in as its subject, until it expires by the wall's clock."""

from __future__ import annotations

import time

import jwt

ALGORITHM = "HS256"


def issue(username: str, secret: str, lifetime_s: int) -> str:
    """A signed token for `username`. Says nothing of roles: these are looked up at each request, so a change holds at once."""
    now_s = int(time.time())
    return jwt.encode({"sub": username, "iat": now_s, "exp": now_s + lifetime_s}, secret, ALGORITHM)


def subject(token: str, secret: str) -> str | None:
    """The username a token was issued for; None when it is forged, damaged or has expired."""
    try:
        claims = jwt.decode(token, secret, [ALGORITHM], options={"require": ["sub", "exp"]})
    except jwt.InvalidTokenError:
        return None
    return str(claims["sub"])
