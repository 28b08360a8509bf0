"""Logging in, and the fleet's clock."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.security import OAuth2PasswordRequestForm
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from hq.api.access import Right
from hq.api.error_answers import ApiError
from hq.api.services import Asking, Serving, address_of, framed_clock, token_of

router = APIRouter()
CONTROL_TIMEOUT_S = 10.0
REFUSAL_BYTES_MAX = 10_000


class Token(BaseModel):
    """A login's answer."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"
    role: str
    name: str
    customer: str | None = None
    ship: str | None = None


class ClockMove(BaseModel):
    """A command to the fleet's clock."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"action": "speed", "speed": 600}, {"action": "jump", "chapter": "C"}]}
    )

    action: Literal["pause", "resume", "speed", "jump"]
    speed: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    chapter: Literal["A", "B", "C"] | None = None


@router.post("/token")
async def log_in(form: Annotated[OAuth2PasswordRequestForm, Depends()], services: Serving, request: Request) -> Token:
    """Open a session: return a bearer token for a username and a password (form fields).

    It ends by `POST /api/logout`, when the account or its password changes, and after 8 h without a request. An unknown username and a
    wrong password get the same answer after the same time. After 5 failures for one account from one address, further logins there are
    slowed down (429).
    """
    address = address_of(request, services)
    try:
        account, argon2_hash = await services.logins.check(address, form.username, form.password)
    except ApiError as refused:
        if refused.status == 401:  # what is refused unchecked (429) comes in floods: the metrics count it
            services.audit.note("login_refused", form.username, address=address, code=refused.code)
        raise
    token = await run_in_threadpool(services.accounts.open_session, account.username, argon2_hash, services.session_ms())
    services.audit.note("login", account.username, address=address)
    return Token(access_token=token, role=account.role, name=account.name, customer=account.customer, ship=account.ship)


@router.post("/logout")
def log_out(ask: Asking, request: Request) -> dict[str, Any]:
    """End the session of this token."""
    ask.services.accounts.close_session(token_of(request))
    ask.audit("logout")
    return framed_clock(ask.services)


@router.get("/clock")
def clock(services: Serving) -> dict[str, Any]:
    """Return the fleet's time and its speed (0: paused). Needs no login."""
    return framed_clock(services)


@router.post("/clock")
def move_clock(ask: Asking, move: ClockMove) -> dict[str, Any]:
    """Pause, resume or speed up the clock, or jump to a chapter of the demo. Operations only; 409 where the clock is real time."""
    ask.need(Right.MOVE_CLOCK)
    if (move.action == "speed") != (move.speed is not None) or (move.action == "jump") != (move.chapter is not None):
        hint = 'For example {"action": "jump", "chapter": "C"}.'
        raise ApiError(422, "speed_or_chapter_invalid", "Only `speed` takes a speed, and only `jump` a chapter.", hint)
    url, token = ask.services.settings.control, ask.services.settings.control_token
    if url is None:
        hint = "Only the demo's simulator has a clock to move."
        raise ApiError(409, "clock_not_movable", "This fleet's clock is the world's own: it can not be moved.", hint)
    moved = _passed_on(str(url), token.get_secret_value() if token else "", move)
    ask.audit("clock", do=move.model_dump(exclude_none=True))
    return {**moved, **framed_clock(ask.services)}


def _passed_on(url: str, token: str, move: ClockMove) -> dict[str, Any]:
    body = json.dumps(move.model_dump(exclude_none=True)).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=CONTROL_TIMEOUT_S) as answer:
            said = json.load(answer)
    except urllib.error.HTTPError as problem:
        raise _refused(problem) from problem
    except (urllib.error.URLError, OSError, ValueError) as problem:
        raise ApiError(503, "simulator_away", "The simulator does not answer.", "See whether it runs, and ask again.") from problem
    return {"simulator": said}


def _refused(problem: urllib.error.HTTPError) -> ApiError:
    """Return the simulator's own sentence and hint."""
    try:
        said = json.loads(problem.read(REFUSAL_BYTES_MAX))
        return ApiError(409, "clock_refused", str(said["error"]), str(said["hint"]))
    except (OSError, ValueError, KeyError, TypeError):
        error = f"What answers as the simulator does not move its clock (HTTP {problem.code})."
        return ApiError(503, "simulator_foreign", error, "Fix the API's setting `control`.")
