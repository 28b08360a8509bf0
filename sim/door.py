"""The clock's HTTP door: `GET /clock` gives the fleet's time, `POST /control` changes how it runs, `GET /healthz` says that it does.

Anybody may ask what time it is. Who changes it shows the settings' `control_token`, and is no web page.
"""

from __future__ import annotations

import hmac
from typing import Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from landfall.access.password_checks import Crowded
from landfall.access.wrong_secrets import WrongSecrets
from landfall.system.text_files import without_mark
from landfall.transport.aiohttp_headers import protect_answers
from sim.story_clock import StoryClock
from streams.model.errors import Misuse

T = TypeVar("T")
_CLOCK = web.AppKey("clock", StoryClock)
_TOKEN = web.AppKey("token", SecretStr)
_WRONG = web.AppKey("wrong", WrongSecrets)


class ClockControl(BaseModel):
    """Body that `POST /control` takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    action: Literal["start", "pause", "resume", "speed", "jump"]
    speed: float | None = None
    chapter: str | None = None


def clock_door(clock: StoryClock, token: SecretStr | None, wrong: WrongSecrets) -> web.Application:
    """Return the door of `clock`, which clients with `token` may change (None: nobody may). Errors are JSON `{"error", "hint", "code"}`:
    400 for what can not be read, 401 and 403 for clients that may not change it, 409 for what the story does not allow. The status is 429
    where too many wrong tokens wait for their answer: `wrong` counts, reports and slows them."""
    door = web.Application(client_max_size=4_096)
    door[_CLOCK], door[_WRONG] = clock, wrong
    if token is not None:
        door[_TOKEN] = token
    protect_answers(door)
    door.add_routes([web.get("/clock", _send_clock), web.post("/control", _control), web.get("/healthz", _send_clock)])
    return door


async def _send_clock(request: web.Request) -> web.Response:
    return web.json_response(request.app[_CLOCK].view())


async def _control(request: web.Request) -> web.Response:
    clock = request.app[_CLOCK]
    if (refusal := await _refusal(request)) is not None:
        return refusal
    try:
        control = ClockControl.model_validate_json(without_mark(await request.read()))
        if control.action == "start":
            clock.start()
        elif control.action == "pause":
            clock.pause()
        elif control.action == "resume":
            clock.resume()
        elif control.action == "speed":
            clock.change_speed(_given(control.speed, "speed"))
        else:
            clock.jump(_given(control.chapter, "chapter"))
    except ValidationError as problem:
        mistakes = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in problem.errors(include_url=False))
        return _error(400, "order_misread", mistakes, "send {action: start|pause|resume|speed|jump, speed?, chapter?}")
    except Misuse as problem:
        return _error(409, "order_refused", problem.args[0], problem.hint)
    return web.json_response(clock.view())


async def _refusal(request: web.Request) -> web.Response | None:
    if "Origin" in request.headers:
        return _error(403, "foreign_origin", "no web page moves this clock", "use the fleet's own pages, or `landfall sim`")
    token = request.app.get(_TOKEN)
    if token is None:
        return _error(403, "control_closed", "nobody moves this clock", "set control_token in the simulator's settings")
    shown = request.headers.get("Authorization", "")
    if not hmac.compare_digest(shown.encode(errors="replace"), f"Bearer {token.get_secret_value()}".encode()):
        try:
            if shown:
                await request.app[_WRONG].shown("", request.remote or "")
        except Crowded:
            return _error(429, "secrets_too_many", "too many wrong tokens wait for their answer", "try again in some seconds")
        error, hint = "this clock is moved by who shows its token", "name the demo's --folder, which holds it"
        return _error(401, "control_token_wrong", error, hint)
    return None


def _error(status: int, code: str, error: str, hint: str | None) -> web.Response:
    return web.json_response({"error": error, "hint": hint, "code": code}, status=status)


def _given(value: T | None, name: str) -> T:
    if value is None:
        raise Misuse(f"this action needs {name}", hint=f"send {{action, {name}}}", code="action_incomplete")
    return value
