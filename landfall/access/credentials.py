"""The credentials of one node: a file that says who may do what there, changed by `landfall credential`, in force within seconds.

The file holds no secrets: of a token its SHA-256, of a password its argon2 hash. `Credentials` is the file as a running node has it.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from msgspec import structs

from landfall.access.password_checks import PasswordChecks, password_bytes
from landfall.access.principals import GATEWAY, VERBS, Allowed, Principal, Verb, check_principal
from landfall.system.private_files import read_private, write_private
from streams.model.errors import Corrupt, Misuse, RetryLater

logger = logging.getLogger("landfall.node")

FILE_NAME = "credentials.json"
"""Name of the file in the folder of the node."""
OPERATOR_TOKEN = "operator.token"
"""Name of the file, in the folder of a running node, with the token of commands that the node's own user runs on its machine.

The token holds until the node ends: each start makes a new one.
"""
LOOK_EVERY_S = 2.0
"""Time between two looks of a running node at its file, seconds."""
TOKEN_BYTES, TITLE_CHARS_MAX = 32, 200
VERSION = 1
NODE = "node:"
"""Prefix of principals that are one node each. They are not copied: what such a node shows at one node it may not show at the next."""
_NOBODYS_HASH = "$argon2id$v=19$m=65536,t=3,p=4$XnwUDv1W0K/Kj9i5v44hSQ$VgwIU5H32Q8/vivSLXFApP4feTN2eyxuWnlzi9idRMI"
"""Hash that is checked for names that nobody has, so that the check takes as long as for others."""


class Credential(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Entry of the file: a principal, what it may do, and its secret: a token of a program, or a person's password.

    `title`: a person's name and rank, as recorded with what the person does. `version`: number of changes of this principal's entry; of
    copies at several nodes the highest is the newest. `withdrawn`: the rest of an entry, so that no copy brings it back.
    """

    principal: str
    allow: dict[Verb, tuple[str, ...]]
    token_sha256: str | None = None
    password_argon2: str | None = None
    title: str = ""
    version: int = 1
    withdrawn: bool = False

    def __post_init__(self) -> None:
        check_principal(self.principal)
        if self.version < 1:
            raise ValueError(f"{self.principal} has version {self.version}; versions count from 1")
        if self.withdrawn:
            if self.allow or self.token_sha256 or self.password_argon2:
                raise ValueError(f"{self.principal} is withdrawn, so it may do nothing and has no secret")
            return
        if len(self.title) > TITLE_CHARS_MAX or not self.title.isprintable() or self.title != self.title.strip():
            raise ValueError(f"{self.principal} has a name of at most {TITLE_CHARS_MAX} printable characters")
        if (self.token_sha256 is None) == (self.password_argon2 is None):
            raise ValueError(f"{self.principal} has either a token or a password")
        if self.principal.startswith(GATEWAY) and (self.token_sha256 is None or set(self.allow) - {"produce"}):
            raise ValueError(f"{self.principal} has a token, and may only produce: on MQTT topic filters")
        if self.password_argon2 is not None and not (self.title and self.principal.startswith("user:")):
            raise ValueError(f"{self.principal} has a password, so it is a user with a name and rank (title)")

    @classmethod
    def of_token(cls, principal: str, allow: Allowed, token: str) -> Credential:
        """Return the credential of `principal` with `token`, which may do what `allow` contains. Raises Misuse for an invalid principal."""
        return cls(principal, dict(allow), token_sha256=token_sha256(token))

    def follows(self, before: Credential | None) -> Credential:
        """Return this credential as it replaces `before`, with the next version; `before` itself where nothing is changed."""
        as_before = structs.replace(self, version=before.version) if before else self
        return before if before == as_before and before is not None else structs.replace(self, version=before.version + 1 if before else 1)

    def is_newer_than(self, other: Credential) -> bool:
        """Return whether this copy counts, of two.

        Every node decides alike, also where two changed it at once: then the withdrawn one counts.
        """
        one, another = ((it.version, it.withdrawn, it.token_sha256 or it.password_argon2 or "", str(it)) for it in (self, other))
        return one > another

    def known(self) -> Principal:
        """Return the principal of this credential."""
        title = self.title if self.password_argon2 else ""
        return Principal(self.principal, self.allow, title, self.token_sha256 or self.password_argon2 or "")


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    credentials: tuple[Credential, ...] = ()

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise ValueError(f"its version is {self.version}, and this program reads version {VERSION}")
        if len({one.principal for one in self.credentials}) < len(self.credentials):
            raise ValueError("a principal is in it twice")
        if twice := sharing_a_token(self.credentials):
            raise ValueError(f"{' and '.join(twice)} have one token; each needs its own")


def sharing_a_token(entries: Iterable[Credential]) -> tuple[str, ...]:
    """Return the principals that have the same token as another; empty where none do.

    A shared token does not identify a principal.
    """
    of_token: dict[str, list[str]] = {}
    for one in entries:
        if one.token_sha256:
            of_token.setdefault(one.token_sha256, []).append(one.principal)
    return tuple(sorted(name for names in of_token.values() if len(names) > 1 for name in names))


def token_sha256(token: str) -> str:
    """Return the SHA-256 of a token, in hexadecimal, as the file keeps it."""
    return hashlib.sha256(token.encode()).hexdigest()


class CredentialFile:
    """File in the folder of a node. Every change is whole and durable: after a crash the file is as before it or as after it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    def read(self) -> tuple[Credential, ...]:
        """Return all credentials that are not withdrawn. Raises as `read_all`."""
        return tuple(one for one in self.read_all() if not one.withdrawn)

    def read_all(self) -> tuple[Credential, ...]:
        """Return all entries, withdrawn ones too; none where there is no file.

        Raises Misuse when others on this machine may read or write it, Corrupt when it can not be understood, RetryLater when it can not
        be read.
        """
        try:
            content = read_private(self.path)
            return msgspec.json.decode(content, type=_Kept).credentials
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as problem:
            raise self._unreadable(problem) from problem
        except (msgspec.MsgspecError, ValueError) as problem:
            raise Corrupt(
                f"{self.path} holds no credentials: {problem}",
                hint="put back a copy, or take it away and add them again",
                code="credentials_corrupt",
            ) from None

    def state(self) -> tuple[int, ...]:
        """Return values that differ once the file was changed; empty where there is none. Raises RetryLater when its status can not be
        read."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as problem:
            raise self._unreadable(problem) from problem
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode

    def _unreadable(self, problem: OSError) -> RetryLater:
        return RetryLater(
            f"{self.path} can not be read: {problem.strerror}", hint="let the user that runs this read it", code="credentials_unavailable"
        )

    def give_token(self, principal: str, allow: Allowed, token: str | None = None) -> str:
        """Let `principal` do this from now on, by the returned token: 256 random bits, kept nowhere else.

        `token`: one that was made before, by the program that writes the settings of all processes. Raises as `read`, and Misuse for an
        invalid principal.
        """
        token = token or secrets.token_urlsafe(TOKEN_BYTES)
        self.put(Credential.of_token(principal, allow, token))
        return token

    def give_password(self, principal: str, allow: Allowed, title: str, password_argon2: str) -> None:
        """Let the person `principal`, known by a password, do this from now on. Raises as `give_token`."""
        self.put(Credential(principal, dict(allow), password_argon2=password_argon2, title=title))

    def withdraw(self, principal: str) -> None:
        """Withdraw all rights of `principal` from now on. Raises Misuse where there is none of that name."""
        with self._changing() as entries:
            before = entries.get(principal)
            if before is None or before.withdrawn:
                raise Misuse(
                    f"no credential of {principal} is in {self.path}",
                    hint="`landfall credential list` shows all",
                    code="credential_unknown",
                )
            entries[principal] = Credential(principal, {}, version=before.version + 1, withdrawn=True)

    def put(self, *credentials: Credential) -> None:
        """Write all of these to the file in one change, each in place of the entry of its principal.

        Raises as `read`, and Misuse where two principals would have one token.
        """
        with self._changing() as entries:
            entries.update((one.principal, one.follows(entries.get(one.principal))) for one in credentials)
            if twice := sharing_a_token(entries.values()):
                raise Misuse(
                    f"{' and '.join(twice)} would have one token",
                    hint="give each its own: `landfall credential add` makes one",
                    code="token_shared",
                )

    def merge(self, credentials: Iterable[Credential]) -> list[str]:
        """Take credentials of another node of this ship or port that are newer than the ones here; return their principals.

        A credential with the token of another principal is left out. Raises as `read`.
        """
        taken = list[str]()
        with self._changing() as entries:
            for one in credentials:
                if (own := entries.get(one.principal)) is not None and not one.is_newer_than(own):
                    continue
                if twice := sharing_a_token((*(other for name, other in entries.items() if name != one.principal), one)):
                    logger.warning("a credential of another node is not taken: %s would have one token", " and ".join(twice))
                    continue
                entries[one.principal] = one
                taken.append(one.principal)
        return sorted(taken)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Credential]]:
        """Yield the entries by principal, to be changed; write them when the block ends well and they did change.

        One change at a time on this machine.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as ended:
                folder = os.open(self.path.parent, os.O_RDONLY)
                ended.callback(os.close, folder)
                fcntl.flock(folder, fcntl.LOCK_EX)
                entries = {one.principal: one for one in self.read_all()}
                before = dict(entries)
                yield entries
                if entries != before or not self.path.exists():
                    kept = msgspec.json.encode(_Kept(VERSION, tuple(entries[name] for name in sorted(entries))))
                    write_private(self.path, msgspec.json.format(kept, indent=1) + b"\n")
        except OSError as problem:
            raise RetryLater(
                f"{self.path} can not be written: {problem.strerror}",
                hint="make room, and let this user write there",
                code="credentials_not_written",
            ) from problem


class Credentials:
    """Credentials of a running node as they are now. Call it from the event loop of the node."""

    def __init__(self, folder: Path) -> None:
        self._file = CredentialFile(folder)
        self._seen: tuple[int, ...] | None = None
        self._by_token: dict[str, Principal] = {}
        self._gateways: dict[str, tuple[str, Principal]] = {}
        """SHA-256 of the token of each gateway, and its principal."""
        self._watching: list[Callable[[], None]] = []
        self._people: dict[str, Credential] = {}
        self._operator: tuple[str, Principal] | None = None
        self.shared: list[bytes] = []
        """Entries that are sent to the other nodes of this ship or port, as JSON: all but those of single nodes, withdrawn entries too."""
        self._checks = PasswordChecks()
        self._key = os.urandom(32)
        self._right: dict[str, bytes] = {}
        """Keyed digest of the last right password of each person: a repeated check costs no argon2."""

    def close(self) -> None:
        """Stop checking passwords."""
        self._checks.close()

    def take_up(self, node: str) -> None:
        """Read the file at the start of `node`, and write a token to OPERATOR_TOKEN that lets the node's own user do everything on its
        machine.

        On a full disk it writes no token, which does not prevent the start. Raises as `CredentialFile.read`.
        """
        self.look()
        token, path = secrets.token_urlsafe(TOKEN_BYTES), self._file.path.with_name(OPERATOR_TOKEN)
        try:
            write_private(path, token.encode())
        except OSError as problem:
            logger.warning("no command can ask this node: %s can not be written: %s", path, problem.strerror)
            return
        self._operator = token_sha256(token), Principal(f"node:{node}", dict.fromkeys(VERBS, ("*",)))

    def look(self) -> bool:
        """Read the file as it is now; return whether it had changed. Raises as `CredentialFile.read`, and leaves all as it was then."""
        seen = self._file.state()
        if seen == self._seen:
            return False
        everything = self._file.read_all()
        self._seen, entries = seen, [one for one in everything if not one.withdrawn]
        self.shared = [msgspec.json.encode(one) for one in everything if not one.principal.startswith(NODE)]
        tokens = {one.principal: (one.token_sha256, one.known()) for one in entries if one.token_sha256}
        self._gateways = {name.removeprefix(GATEWAY): known for name, known in tokens.items() if name.startswith(GATEWAY)}
        self._by_token = {digest: principal for name, (digest, principal) in tokens.items() if not name.startswith(GATEWAY)}
        people = {one.principal.removeprefix("user:"): one for one in entries if one.password_argon2}
        self._right = {name: digest for name, digest in self._right.items() if people.get(name) == self._people[name]}
        self._people = people
        return True

    def merge(self, entries: Iterable[bytes]) -> list[str]:
        """Write the `shared` entries that another node of this ship or port sent, where they are newer, and return their principals.

        They hold from the next `look` on. Entries that do not read, as those of a later release, are left out. Raises as
        `CredentialFile.read`.
        """
        came = list[Credential]()
        for entry in entries:
            try:
                one = msgspec.json.decode(entry, type=Credential)
            except (msgspec.MsgspecError, Misuse) as problem:
                logger.warning("a credential of another node does not read: %s", problem)
            else:
                came += () if one.principal.startswith(NODE) else (one,)
        return self._file.merge(came)

    def on_change(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call this, in the event loop of the node, at every change from now on, until the returned function is called."""
        self._watching.append(call)
        return lambda: self._watching.remove(call)

    def notify_watchers(self) -> None:
        """Call every function of `on_change`. Called after the credentials have changed."""
        for call in list(self._watching):
            call()

    def holds(self, principal: Principal) -> bool:
        """Return whether this very principal, with all that it may do, is still among them."""
        gateways = (one for _, one in self._gateways.values())
        tokens = (*self._by_token.values(), *gateways, *((self._operator[1],) if self._operator else ()))
        return any(one == principal for one in (*tokens, *(one.known() for one in self._people.values())))

    def gateway(self, name: str) -> Principal | None:
        """Return the gateway of this name; its `produce` rights are MQTT topic filters."""
        return self._gateways[name][1] if name in self._gateways else None

    def is_gateways(self, name: str, token: bytes) -> bool:
        """Return whether this is the token of the gateway of this name."""
        digest = self._gateways[name][0] if name in self._gateways else ""
        return hmac.compare_digest(digest, hashlib.sha256(token).hexdigest())

    def of_token(self, token: str) -> Principal | None:
        """Return the principal with this token; a gateway's token opens nothing but MQTT."""
        digest = token_sha256(token)
        if self._operator and hmac.compare_digest(self._operator[0], digest):
            return self._operator[1]
        return self._by_token.get(digest)

    async def of_person(self, address: str, name: str, password: str) -> Principal | None:
        """Return the person of this name, where the password is right. `address`: where the request came from.

        Raises `landfall.access.password_checks.Crowded`.
        """
        person = self._people.get(name)
        given = password_bytes(password)
        digest = hmac.digest(self._key, given, hashlib.sha256)
        if person is not None and hmac.compare_digest(self._right.get(name, b""), digest):
            return person.known()
        expected = (person and person.password_argon2) or _NOBODYS_HASH
        right = await self._checks.right(address, name if person else "", expected, given)
        if not right or person is None or self._people.get(name) != person:
            return None
        self._right[name] = digest
        return person.known()


def operator_token(folder: Path) -> str:
    """Return the token of commands that the user of the node in `folder` runs on its machine.

    Raises RetryLater where the node does not run, Misuse for another user.
    """
    path = folder / OPERATOR_TOKEN
    try:
        return read_private(path).decode()
    except FileNotFoundError:
        raise RetryLater(
            f"no node runs in {folder}: there is no {OPERATOR_TOKEN}", hint="start the node", code="node_not_running"
        ) from None
    except OSError as problem:
        raise Misuse(
            f"{path} can not be read: {problem.strerror}", hint="run this as the user that runs the node", code="credential_unavailable"
        ) from problem
