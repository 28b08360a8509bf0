"""The clock's HTTP door: `GET /clock` tells the fleet's time, `POST /control` changes how it runs, `GET /healthz` says that it does."""

from __future__ import annotations

from typing import Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from sim.clock import StoryClock
from streams.errors import Misuse
from streams.link.answers import protect_answers

T = TypeVar("T")
_CLOCK = web.AppKey("clock", StoryClock)


class Control(BaseModel):
    """What `POST /control` takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    action: Literal["start", "pause", "resume", "speed", "jump"]
    speed: float | None = None
    chapter: str | None = None


def clock_door(clock: StoryClock) -> web.Application:
    """The door of `clock`. Errors are JSON `{"error", "hint"}`: 400 for what can not be read, 409 for what the story does not allow."""
    door = web.Application(client_max_size=4_096)
    door[_CLOCK] = clock
    protect_answers(door)
    door.add_routes([web.get("/clock", _tell), web.post("/control", _control), web.get("/healthz", _tell)])
    return door


async def _tell(request: web.Request) -> web.Response:
    return web.json_response(request.app[_CLOCK].view())


async def _control(request: web.Request) -> web.Response:
    clock = request.app[_CLOCK]
    try:
        control = Control.model_validate_json(await request.read())
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
        told = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in problem.errors(include_url=False))
        return web.json_response({"error": told, "hint": "send {action: start|pause|resume|speed|jump, speed?, chapter?}"}, status=400)
    except Misuse as problem:
        return web.json_response({"error": problem.args[0], "hint": problem.hint}, status=409)
    return web.json_response(clock.view())


def _given(value: T | None, name: str) -> T:
    if value is None:
        raise Misuse(f"this action needs {name}", hint=f"send {{action, {name}}}")
    return value
