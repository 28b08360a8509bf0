"""Ed25519 keys and signatures (RFC 8032). Only this module uses the library that makes them."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from streams.integrity.base64_text import from_text, to_text
from streams.model.errors import Misuse

PUBLIC_BYTES, SIGNATURE_BYTES = 32, 64
_PREFIX = "ed25519:"


class SigningKey:
    """Private key of a node. It is never printed and never in the log."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)

    @classmethod
    def made(cls) -> SigningKey:
        """Return a new key, from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """Return the key of 32 given bytes: for tests."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_pem(cls, pem: bytes) -> SigningKey:
        """Return the key that `to_pem` wrote. Raises Misuse for anything else."""
        try:
            key = serialization.load_pem_private_key(pem, None)
        except (ValueError, TypeError) as problem:
            raise Misuse(
                f"this is no private key: {problem}",
                hint="put back the node's own key file from where its secrets are kept",
                code="private_key_invalid",
            ) from problem
        if not isinstance(key, Ed25519PrivateKey):
            raise Misuse("this key is of another kind than Ed25519", hint="put back the node's own key file", code="private_key_invalid")
        return cls(key)

    def to_pem(self) -> bytes:
        """Return the key as PKCS #8, unencrypted: the file's rights protect it."""
        return self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of `message`, which only this key can make."""
        return self._key.sign(message)


def signed_by(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the private half of `public` made `signature` for `message`."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_text(public: bytes) -> str:
    """Return a public key as people pass it on: `ed25519:` and 43 characters."""
    return _PREFIX + to_text(public)


def key_from_text(text: str) -> bytes:
    """Return the public key that `key_text` wrote. Raises Misuse."""
    try:
        public = from_text(text.strip().removeprefix(_PREFIX))
    except ValueError:
        public = b""
    if len(public) != PUBLIC_BYTES:
        raise Misuse(
            f"{text!r} is no public key",
            hint="it is like ed25519: and 43 characters, as `landfall proof key` shows it",
            code="public_key_invalid",
        )
    return public
