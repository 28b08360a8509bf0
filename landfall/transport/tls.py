"""TLS between nodes: each shows a certificate with its name, and a problem with one is reported in a sentence."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from landfall.system.private_files import check_private
from streams.model.errors import Misuse

logger = logging.getLogger("landfall.node")

NODE_DOMAIN = ".node.landfall"
_VERIFY = {  # X509_V_ERR_… of OpenSSL
    9: "counts only from a later time on",
    10: "has expired",
    18: "is signed by nobody but itself",
    19: "is signed by an authority that is not known here",
    20: "is signed by an authority that is not known here",
    21: "is signed by an authority that is not known here",
    62: "is not that of '{node}'",
    64: "is not for this address",
}
CERTIFICATE_HINT = "`landfall certs show` shows what a certificate says; compare it with the peer's and with the clock"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the authority whose nodes are trusted, this node's certificate (with its chain to the authority), and its key."""

    authority: Path
    certificate: Path
    key: Path


def node_host(node: str) -> str:
    """Return the host name by which a certificate names a node."""
    return f"{node}{NODE_DOMAIN}"


def serving(files: TlsFiles) -> ssl.SSLContext:
    """Return a context for a door, TLS 1.3. A client's certificate must be one of the authority's; a client without one needs a token.
    Raises Misuse.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.sslobject_class = _Hearing
    return _filled(context, files)


def dialling(files: TlsFiles) -> ssl.SSLContext:
    """Return a context for dialling a peer, which must show a certificate of the authority's with its own name. Raises Misuse."""
    return _filled(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), files)


def trusting(authority: Path) -> ssl.SSLContext:
    """Return a context for reading at a node's door by its host name, without a certificate of one's own. Raises Misuse."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _trust(context, authority)
    return context


def node_of(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the node that a verified peer's certificate (as `ssl` gives it) names; None when there is no certificate, or none of a
    node.
    """
    names = [value for kind, value in (certificate or {}).get("subjectAltName", ()) if kind == "DNS" and value.endswith(NODE_DOMAIN)]
    return names[0].removesuffix(NODE_DOMAIN) if len(names) == 1 else None


def expires_s(certificate: Mapping[str, Any] | None) -> float | None:
    """Return until when (seconds since 1970) a verified peer's certificate is valid; None when there is none."""
    return ssl.cert_time_to_seconds(certificate["notAfter"]) if certificate else None


def why(problem: BaseException, node: str) -> str | None:
    """Return, in words, what is wrong with the certificates, when they are the reason for `problem` in dialling `node`; None otherwise."""
    cause: BaseException | None = problem
    while cause is not None and type(cause) not in (ssl.SSLError, ssl.SSLCertVerificationError):  # a library's own kinds say less
        cause = getattr(cause, "os_error", None) or cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        wrong = _VERIFY.get(cause.verify_code, f"does not verify: {cause.verify_message}")
        return f"it shows a certificate that {wrong.format(node=node)}"
    return None if cause is None else f"no TLS with it: {getattr(cause, 'reason', None) or cause}"


class Shown:
    """The certificate that a context shows, also after the certificate and the key in the files are replaced. Open connections stay as they
    are; new ones show the new certificate. The authority to trust is read only at the start.
    """

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path, load: Callable[[ssl.SSLContext], object]) -> None:
        """Watch the files. `load` fills a context from these files, as it did `context`, and raises Misuse when they do not load."""
        self.context, self.certificate, self._key, self._load = context, certificate, key, load
        self._seen = _stamps(certificate, key)

    def renew(self) -> bool:
        """Show the certificate in the files if they have changed, and return whether they have.

        Raises Misuse where they do not load, as while one of them is still the old one: the last that loaded are still shown.
        """
        if (stamps := _stamps(self.certificate, self._key)) == self._seen:
            return False
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))  # what does not belong together would spoil what is shown
        self.context.load_cert_chain(self.certificate, self._key)
        self._seen = stamps
        return True


def showing(door: str, certificate: Path | None, key: Path | None) -> Shown | None:
    """Return what a door shows to clients that show nothing themselves; None without a certificate. Raises Misuse, which names `door`, when
    the two do not load, and when others may read the key.
    """
    if certificate is None or key is None:
        return None

    def load(context: ssl.SSLContext) -> ssl.SSLContext:
        try:
            check_private(key)
            context.load_cert_chain(certificate, key)
        except OSError as problem:
            raise Misuse(
                f"{door}'s tls_certificate {certificate} and tls_key {key} do not load: {problem.strerror or problem}",
                hint="name a certificate and its own key, both PEM, that this user may read",
                code="certificate_not_loaded",
            ) from problem
        return context

    return Shown(load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)), certificate, key, load)


def shown_of(context: ssl.SSLContext, files: TlsFiles) -> Shown:
    """Return the Shown of `context`, which was made of these files of a node."""
    return Shown(context, files.certificate, files.key, lambda fresh: _filled(fresh, files))


class _Hearing(ssl.SSLObject):
    """The server's end of a handshake. It can not report a problem to the dialler: it reports it in its own log."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as problem:
            logger.info("a peer was turned away: %s", why(problem, "a node"))
            raise


def _filled(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    try:
        check_private(files.key)
        context.load_cert_chain(files.certificate, files.key)
    except OSError as problem:
        raise Misuse(
            f"certificate {files.certificate} and key {files.key} do not load: {problem.strerror or problem}",
            hint="name a certificate and its own key, both PEM, that this user may read: `landfall certs node` makes both",
            code="certificate_not_loaded",
        ) from problem
    _trust(context, files.authority)
    return context


def _stamps(certificate: Path, key: Path) -> list[tuple[int, int, int]]:
    stamps = []
    for path in (certificate, key):
        with suppress(OSError):  # loading it raises the error
            found = path.stat()
            stamps.append((found.st_ino, found.st_mtime_ns, found.st_size))
    return stamps


def _trust(context: ssl.SSLContext, authority: Path) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(authority)
    except OSError as problem:
        raise Misuse(
            f"the authority in {authority} does not load: {problem.strerror or problem}",
            hint="`landfall certs authority` makes one",
            code="authority_not_loaded",
        ) from problem
