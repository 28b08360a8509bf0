"""The shape of every error of the API, `{"error": sentence, "hint": what to do, "code": stable code}`, and all codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from hq.api.codes import Code
from hq.serving.database_faults import GONE, DatabaseGone
from streams.model.errors import NotAllowed, RetryLater

RETRY_AFTER_S = 1
_CODES: dict[int, Code] = {404: "path_unknown", 405: "method_not_allowed"}
"""The codes of what the framework refuses, by status."""


class ApiError(Exception):
    """An answer other than 200: status, code, sentence, hint, headers, and whatever else the caller should know."""

    def __init__(self, status: int, code: Code, error: str, hint: str = "", headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.headers = dict(headers or ({"WWW-Authenticate": "Bearer"} if status == 401 else {}))
        self.code = code
        self.body = {"error": error, "hint": hint, "code": code, **more}


class Rebuilding(DatabaseGone):
    """The serving database is being built; it was begun at `since_wall_at_ms` (wall time, UTC ms; None when it is not there yet)."""

    def __init__(self, message: str, since_wall_at_ms: int | None = None) -> None:
        super().__init__(message, hint="it builds itself from the log: ask again in a moment", code=GONE.code)
        self.since_wall_at_ms = since_wall_at_ms


def unknown_container() -> ApiError:
    """Return the one answer for a container that does not exist and for one the viewer may not see: nobody can distinguish them."""
    hint = "Check the number, or find it by its booking."
    return ApiError(404, "container_unknown", "There is no such container among those you may see.", hint)


def not_found(code: Code, what: str) -> ApiError:
    """Return the error of `unknown_container`, for another thing."""
    return ApiError(404, code, f"There is no such {what} among those you may see.", "Check how it is written.")


def not_for_you(what: str) -> ApiError:
    """Return the answer to a role that may not do this at all, on whatever object."""
    return ApiError(403, "right_missing", f"Your account may not {what}.", "Log in with an account that may.")


def answer_to(problem: ApiError | RetryLater) -> JSONResponse:
    """Return the answer in the one shape."""
    if isinstance(problem, ApiError):
        return JSONResponse(problem.body, problem.status, problem.headers)
    body: dict[str, Any] = {"error": problem.args[0], "hint": problem.hint, "code": problem.code}
    if isinstance(problem, DatabaseGone):
        body["rebuilding"] = {"since_wall_at_ms": problem.since_wall_at_ms if isinstance(problem, Rebuilding) else None}
    return JSONResponse(body, 503, {"Retry-After": str(RETRY_AFTER_S)})


def _writable(part: object) -> str:
    """Return the name so that it can be written as UTF-8: with halves of surrogate pairs escaped, and otherwise unchanged."""
    return str(part).encode(errors="backslashreplace").decode()


def add_handlers(app: FastAPI, broke: Callable[[str, str], None]) -> None:
    """Give every error of `app` the one shape. `broke` receives each unforeseen error: the cause and the request."""

    @app.exception_handler(ApiError)
    @app.exception_handler(RetryLater)
    def _known(_: Request, problem: ApiError | RetryLater) -> JSONResponse:
        return answer_to(problem)

    @app.exception_handler(RequestValidationError)
    def _misread(_: Request, problem: RequestValidationError) -> JSONResponse:
        problems = [{"where": ".".join(_writable(part) for part in error["loc"]), "problem": error["msg"]} for error in problem.errors()]
        return answer_to(ApiError(422, "field_invalid", "Invalid request.", "Fix these fields.", problems=problems))

    @app.exception_handler(HTTPException)
    def _plain(_: Request, problem: HTTPException) -> JSONResponse:
        if problem.status_code == 400:  # FastAPI's word for a body its JSON reader gave up on
            return answer_to(ApiError(422, "body_unreadable", "Invalid request.", "Send JSON that nests less deeply."))
        code = _CODES.get(problem.status_code, "request_refused")
        return answer_to(ApiError(problem.status_code, code, str(problem.detail), "See /docs for all there is.", problem.headers))

    @app.exception_handler(Exception)
    def _broken(request: Request, problem: Exception) -> JSONResponse:
        broke(repr(problem), f"{request.method} {request.url.path}")
        return answer_to(ApiError(500, "broken", "Internal error; details are in the API's log.", "Report it to the operator."))

    @app.exception_handler(NotAllowed)
    def _forbidden(_: Request, problem: NotAllowed) -> JSONResponse:
        return JSONResponse({"error": problem.args[0], "hint": problem.hint, "code": problem.code}, 403)
