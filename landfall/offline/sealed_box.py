"""Sealing for one receiver: X25519 (RFC 7748) with a key of this file's alone, HKDF-SHA256, ChaCha20-Poly1305 (RFC 8439) a frame."""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from streams.integrity.base64_text import from_text, to_text
from streams.model.errors import Corrupt, Misuse

PUBLIC_BYTES = 32
TAG_BYTES = 16
_PREFIX = "x25519:"
_INFO = b"landfall stick 1"


class OpeningKey:
    """Private key of the recipient of sealed files. It is never printed, and never in the log."""

    def __init__(self, key: X25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)

    @classmethod
    def made(cls) -> OpeningKey:
        """Return a new key, from the operating system's randomness."""
        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes) -> OpeningKey:
        """Return the key that `to_pem` wrote. Raises Misuse for anything else."""
        try:
            key = serialization.load_pem_private_key(pem, None)
        except (ValueError, TypeError) as problem:
            raise Misuse(
                f"this is no private key: {problem}", hint="put back the node's own key file", code="private_key_invalid"
            ) from problem
        if not isinstance(key, X25519PrivateKey):
            raise Misuse("this key is of another kind than X25519", hint="put back the node's own key file", code="private_key_invalid")
        return cls(key)

    def to_pem(self) -> bytes:
        """Return the key as PKCS #8, unencrypted: the file's rights protect it."""
        return self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    def cipher(self, other: bytes, salt: bytes) -> Cipher:
        """Return the cipher of the file whose own key is `other`. Raises Corrupt when that is no key."""
        return Cipher(_shared(self._key, other), salt, other + self.public)


class Cipher:
    """Cipher that seals and opens the frames of one file. A number is used once."""

    def __init__(self, shared: bytes, salt: bytes, keys: bytes) -> None:
        derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=_INFO + keys).derive(shared)
        self._aead = ChaCha20Poly1305(derived)

    def seal(self, number: int, head: bytes, message: bytes) -> bytes:
        """Return `message` encrypted and bound to its frame's head."""
        return self._aead.encrypt(_nonce(number), message, head)

    def open(self, number: int, head: bytes, sealed: bytes) -> bytes:
        """Return the message that was sealed. Raises Corrupt when it was for another key, or one byte is not as it was."""
        try:
            return self._aead.decrypt(_nonce(number), sealed, head)
        except InvalidTag as problem:
            raise Corrupt("it does not open with this node's key", code="sealed_for_another") from problem


def sealing_for(receiver: bytes, salt: bytes) -> tuple[bytes, Cipher]:
    """Return a file's own public key, which goes along, and the cipher that only `receiver` can open.

    The private half is dropped here.
    """
    key = X25519PrivateKey.generate()
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return public, Cipher(_shared(key, receiver), salt, public + receiver)


def opening_key_text(public: bytes) -> str:
    """Return a receiver's public key as people pass it on: `x25519:` and 43 characters."""
    return _PREFIX + to_text(public)


def opening_key_from_text(text: str) -> bytes:
    """Return the public key that `opening_key_text` wrote. Raises Misuse for anything else."""
    try:
        public = from_text(text.strip().removeprefix(_PREFIX)) if text.strip().startswith(_PREFIX) else b""
    except ValueError:
        public = b""
    if len(public) != PUBLIC_BYTES:
        raise Misuse(
            f"{text!r} is no key to seal for",
            hint="it is like x25519: and 43 characters, as `landfall sync key` shows it there",
            code="public_key_invalid",
        )
    return public


def _shared(key: X25519PrivateKey, other: bytes) -> bytes:
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as problem:
        raise Corrupt(f"a sealed file's own key is none: {problem}", code="sealed_corrupt") from problem


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")
