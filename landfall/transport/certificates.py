"""Certificates of nodes (X.509, ECDSA P-256): a development authority, what it signs, and a certificate's contents in words.

A node's name is in its certificate as the host name `<node>.node.landfall`, next to the hosts where its door is: no host is a node.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from landfall.transport.tls import TlsFiles, node_host
from streams.model.errors import Misuse
from streams.model.identifiers import NODE_PATTERN

EARLY = timedelta(hours=1)
"""Time before now from which a new certificate is valid: clocks of nodes differ."""
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?", re.ASCII)


@dataclass(frozen=True, slots=True)
class KeyAndCertificate:
    """A certificate and its private key (PKCS #8, unencrypted), both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Described:
    """The contents of a certificate: its subject, its host names and addresses, its issuer, and its validity from and until (UTC)."""

    subject: str
    hosts: tuple[str, ...]
    issuer: str
    since: datetime
    until: datetime
    authority: bool


def make_authority(name: str, now: datetime, days: float) -> KeyAndCertificate:
    """Return a new authority that signs nodes' certificates for `days` from `now` on. It is for development: its key lies in a file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _dated(now, days)
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _made(builder.sign(key, hashes.SHA256()), key)


def make_node(authority: KeyAndCertificate, node: str, hosts: Sequence[str], now: datetime, days: float) -> KeyAndCertificate:
    """Return a certificate for `node`, signed by `authority`, for dialling and for being dialled, at `hosts` (names or addresses) too.

    It is valid for `days`, and no longer than its authority. Raises Misuse for a name that no node or host can have, or an authority that
    does not read or has expired.
    """
    if not NODE_PATTERN.fullmatch(node):
        raise Misuse(
            f"no node can be called {node!r}",
            hint="small letters, digits and dashes, at most 63, as in the node's settings",
            code="node_name_invalid",
        )
    issuer, issuer_key = _loaded(authority)
    if issuer.not_valid_after_utc <= now:
        raise Misuse(
            f"the authority '{_common_name(issuer.subject)}' has expired: it counted until {issuer.not_valid_after_utc:%Y-%m-%d %H:%M}Z",
            hint="nobody believes what it signs: make another with `landfall certs authority`, and give every node that",
            code="authority_expired",
        )
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.DNSName(node_host(node)), *(_host(host) for host in hosts)]
    builder = (
        _dated(now, days, issuer.not_valid_after_utc)
        .subject_name(_named(node))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    return _made(builder.sign(issuer_key, hashes.SHA256()), key)


def describe(certificate: bytes) -> Described:
    """Return the contents of a PEM certificate. Raises Misuse when it is no certificate."""
    try:
        read = x509.load_pem_x509_certificate(certificate)
    except ValueError as problem:
        raise Misuse(
            f"this is no certificate: {problem}", hint="name the file that `landfall certs` wrote as .pem", code="certificate_unreadable"
        ) from problem
    try:
        named = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = (*named.get_values_for_type(x509.DNSName), *map(str, named.get_values_for_type(x509.IPAddress)))
    except x509.ExtensionNotFound:
        hosts = ()
    try:
        authority = read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        authority = False
    subject, issuer = _common_name(read.subject), _common_name(read.issuer)
    return Described(subject, hosts, issuer, read.not_valid_before_utc, read.not_valid_after_utc, authority)


def doubt(files: TlsFiles, now: datetime) -> str | None:
    """Return why a peer with the same authority does not accept this node's certificate, in words; None when there is no reason here.

    Raises Misuse when the files do not read.
    """
    if reason := doubt_of_authority(files, now):
        return reason
    said = describe(files.certificate.read_bytes())
    if said.until <= now:
        return f"this node's certificate, {files.certificate}, has expired: it counted until {said.until:%Y-%m-%d %H:%M}Z"
    if said.since > now:
        return f"this node's certificate, {files.certificate}, counts only from {said.since:%Y-%m-%d %H:%M}Z on"
    own = x509.load_pem_x509_certificates(files.certificate.read_bytes())
    known = x509.load_pem_x509_certificates(files.authority.read_bytes())
    if not any(_signed(own[-1], one) for one in known):
        return f"this node's certificate, {files.certificate}, is signed by '{said.issuer}', not by the authority in {files.authority}"
    return None


def doubt_of_authority(files: TlsFiles, now: datetime) -> str | None:
    """Return why no certificate at all can be valid now, this node's or a peer's, in words; None when some can. Raises Misuse as `doubt`
    does.
    """
    known = x509.load_pem_x509_certificates(files.authority.read_bytes())
    if any(one.not_valid_before_utc <= now < one.not_valid_after_utc for one in known):
        return None
    until = max(one.not_valid_after_utc for one in known)
    if until <= now:
        return f"the authority in {files.authority} has expired, and with it all that it signed: it counted until {until:%Y-%m-%d %H:%M}Z"
    since = min(one.not_valid_before_utc for one in known)
    return f"the authority in {files.authority} counts only from {since:%Y-%m-%d %H:%M}Z on"


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _dated(now: datetime, days: float, latest: datetime | None = None) -> x509.CertificateBuilder:
    since, until = now.astimezone(UTC) - EARLY, now.astimezone(UTC) + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until if latest is None else min(until, latest))
    )


def _loaded(authority: KeyAndCertificate) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    hint = "give the folder in which `landfall certs authority` wrote authority.pem and authority.key"
    try:
        certificate = x509.load_pem_x509_certificate(authority.certificate)
        key = serialization.load_pem_private_key(authority.key, None)
    except (ValueError, TypeError) as problem:
        raise Misuse(f"this is no authority: {problem}", hint=hint, code="authority_unreadable") from problem
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise Misuse("the authority's certificate and key do not belong together", hint=hint, code="authority_mismatched")
    return certificate, key


def _made(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyAndCertificate:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyAndCertificate(certificate.public_bytes(serialization.Encoding.PEM), pem)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise Misuse(f"{host!r} is no host", hint="give a host's name in ASCII, or its address, without a port", code="host_invalid")
    return x509.DNSName(host)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _common_name(name: x509.Name) -> str:
    return ", ".join(str(one.value) for one in name.get_attributes_for_oid(NameOID.COMMON_NAME)) or name.rfc4514_string()
