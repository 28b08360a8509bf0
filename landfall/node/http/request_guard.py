"""The guard of a node's HTTP door. Every route declares what it needs, and a token or a password identifies its caller."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from landfall.access.credentials import LOOK_EVERY_S, Credentials
from landfall.access.principals import Principal, Verb, may
from landfall.access.wrong_secrets import WrongSecrets
from landfall.system.hung_calls import apart
from streams.model.errors import LandfallError, NotAllowed

logger = logging.getLogger("landfall.node")

_PRINCIPAL = web.RequestKey("principal", Principal)


@dataclass(frozen=True, slots=True)
class Need:
    """The right that a route needs of its caller: `verb` on `stream`. `{stream}`: the stream that its path names. None: the streams that
    its handler finds in the request and checks with `must`, one by one. `person`: the caller is a person, whose name is recorded.
    """

    verb: Verb
    stream: str | None = None
    person: bool = False


OPEN = None
"""Need of a route that is for everybody."""


def principal_of(request: web.Request) -> Principal:
    """Return the principal that sends this request. Raises KeyError on a route that is for everybody."""
    return request[_PRINCIPAL]


def must(request: web.Request, verb: Verb, stream: str) -> None:
    """Raise NotAllowed where the sender of this request may not do `verb` on `stream`."""
    principal = principal_of(request)
    if not may(principal, verb, stream):
        hint = "the node's operator gives more with `landfall credential add`"
        raise NotAllowed(f"{principal.name} may not {verb} {stream}", hint=hint, code="credential_not_allowed")


def person_of(request: web.Request) -> str:
    """Return the name and rank of the person who sends this request, on a route that needs a person."""
    principal = principal_of(request)
    assert principal.is_person, "the route's Need does not say that it needs a person"
    return principal.title


class Guard:
    """The check of the callers of one node's routes. It belongs to the event loop of the node."""

    def __init__(
        self,
        app: web.Application,
        credentials: Credentials,
        wrong: WrongSecrets,
        report: Callable[..., None],
        trusted_proxies: Iterable[str],
    ) -> None:
        """Make the guard. `wrong` is notified of every wrong secret. `trusted_proxies`: addresses and networks whose `X-Forwarded-For` is
        used.
        """
        self._app, self._credentials, self._wrong, self._report = app, credentials, wrong, report
        self._proxies = [ip_network(one) for one in trusted_proxies]
        self._needs: dict[tuple[str, str], Need | None] = {}
        self._under_way: dict[asyncio.Task[Any], Principal] = {}

    @property
    def needs(self) -> dict[tuple[str, str], Need | None]:
        """Need of each route, by method and path."""
        return dict(self._needs)

    def route(self, method: str, path: str, handler: Handler, need: Need | None) -> None:
        """Answer such requests by `handler`, for callers that satisfy `need` (`OPEN`: for everybody). Call it before the node starts."""
        router = self._app.router
        added = router.add_get(path, handler) if method == "GET" else router.add_route(method, path, handler)
        resource = added.resource
        assert resource is not None
        self._needs[method, resource.canonical] = need

    async def known(self, request: web.Request) -> Principal | None:
        """Return the principal that sends this request; None when it is not known. A wrong secret is counted, and its answer slowed.

        Raises Crowded where too many wrong secrets, or passwords, wait.
        """
        kind, _, shown = request.headers.get("Authorization", "").partition(" ")
        name, secret = _read_shown(kind.lower(), shown.strip())
        if not secret:
            return None
        address = self._sender(request)
        found = await self._credentials.of_person(address, name, secret) if name else self._credentials.of_token(secret)
        if found is None:
            await self.shown_wrong(request, name)
        return found

    async def shown_wrong(self, request: web.Request, name: str) -> None:
        """Count and report a wrong secret that came with `request` and `name` (empty: a token). It returns when the request may be
        answered. Raises Crowded where too many wait.
        """
        await self._wrong.shown(name, self._sender(request))

    def _sender(self, request: web.Request) -> str:
        """Return the address that a request comes from. Where a trusted proxy sent it, that is the last in `X-Forwarded-For` that is no
        trusted proxy's.
        """
        address = request.remote or ""
        named = ",".join(request.headers.getall("X-Forwarded-For", ())).split(",")
        while named and self._is_proxy(address) and (before := _address(named.pop())):
            address = before
        return address

    def _is_proxy(self, address: str) -> bool:
        return bool(known := _address(address)) and any(ip_address(known) in network for network in self._proxies)

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer by `handler` where the caller may do what the route needs, else with 401 or by raising NotAllowed. A route that declares
        no need is for nobody.
        """
        resource = request.match_info.route.resource
        method = "GET" if request.method == "HEAD" else request.method
        route = (method, resource.canonical if resource else "")
        if route in self._needs and self._needs[route] is OPEN:
            return await handler(request)
        principal = await self.known(request)
        if principal is None:
            sentence = "this door wants a credential of this node: Authorization: Bearer TOKEN, or a user's name and password"
            return problem_response(401, sentence, "credential_wrong")
        request[_PRINCIPAL] = principal
        if resource is not None:
            _pass(request, principal, self._needs.get(route))
        with self._goes_on(principal):
            return await handler(request)

    @contextmanager
    def _goes_on(self, principal: Principal) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._under_way[task] = principal
        try:
            yield
        finally:
            del self._under_way[task]

    def under_way(self) -> list[str]:
        """Return the principals whose requests are being answered."""
        return sorted(principal.name for principal in self._under_way.values())

    async def keep_looking(self) -> None:
        """Apply changes of the file of credentials as long as the node runs. Requests under way of a principal that it does not name any
        more are ended.
        """
        reported_problem = ""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                new, reported_problem = await apart("credentials", self._credentials.look), ""
            except LandfallError as problem:
                if str(problem) != reported_problem:
                    reported_problem = str(problem)
                    logger.error("credentials are not taken, those of before hold: %s", problem)
                    self._report("credentials are not taken", "those of before hold", code=problem.code, problem=reported_problem)
                continue
            if new:
                logger.info("credentials have changed")
                for task, principal in list(self._under_way.items()):
                    if not self._credentials.holds(principal):
                        task.cancel()
                self._credentials.notify_watchers()


def _address(text: str) -> str:
    """Return the IP address in `text`; an empty text where it is none."""
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        return ""


def _pass(request: web.Request, principal: Principal, need: Need | None) -> None:
    """Raise NotAllowed where `principal` may not do what the route of `request` needs. None (a route that declares nothing) is for
    nobody.
    """
    if need is None or (need.stream is None and not may(principal, need.verb, None)):
        raise NotAllowed(f"{principal.name} has nothing to do here", code="credential_not_allowed")
    if need.stream is not None:
        must(request, need.verb, need.stream.format(**request.match_info))
    if need.person and not principal.is_person:
        hint = "log in with a user's name and password: `landfall credential add user:NAME --crew …` makes one"
        raise NotAllowed(f"{principal.name} is no person", hint=hint, code="person_expected")


def problem_response(status: int, sentence: str, code: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a refusal: a sentence for people, a code for programs."""
    return web.json_response({"problem": sentence, "code": code}, status=status, headers=headers)


def _read_shown(kind: str, shown: str) -> tuple[str, str]:
    """Return the user's name (empty for a token) and the secret of an `Authorization` header; two empty texts for none."""
    if kind == "bearer":
        return "", shown
    if kind != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(shown, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return (name, password) if name else ("", "")
