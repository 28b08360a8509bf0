"""Goal: what looks like a secret is left out of what is kept for people, whether it parses or not, and nothing else is."""

from __future__ import annotations

import pytest

from streams.secrets import mask_secrets


@pytest.mark.parametrize(
    ("data", "masked"),
    [
        (b'{"password": "hunter2", "temp": 4.5}', b'{"password": "***", "temp": 4.5}'),
        (b'{"wifi_password":"a\\"b", "x": 1}', b'{"wifi_password":"***", "x": 1}'),
        (b'{"Authorization": "Bearer abc.def", "b": 2', b'{"Authorization": "***", "b": 2'),
        (b"Authorization: Bearer abc.def\r\nHost: x", b"Authorization: ***\r\nHost: x"),
        (b"token=abc&temp=4", b"token=***&temp=4"),
        (b"{'api_key': 'abc', oops", b"{'api_key': '***', oops"),
        (b'{"client_secret": "cut off in the mid', b'{"client_secret": "***'),
        (b'{"accessToken": 12345}', b'{"accessToken": ***}'),
        (b'"{\\"password\\": \\"hunter2\\", \\"t\\": 1}"', b'"{\\"password\\": \\"***\\", \\"t\\": 1}"'),
        (b'{"SECRET" :\n "x"}', b'{"SECRET" :\n "***"}'),
    ],
)
def test_the_value_alone_is_left_out(data: bytes, masked: bytes) -> None:
    assert mask_secrets(data) == (masked, 1)


@pytest.mark.parametrize("data", [b"quack", b'{"temp": 4.5}', b"\x00\xff" * 50, b'{"note": "he forgot the password"}', b'{"password": {}}'])
def test_what_is_no_secret_stays(data: bytes) -> None:
    assert mask_secrets(data) == (data, 0)


@pytest.mark.parametrize("piece", [b"token", b'token":"', b"password=", b'secret: "\\', b"token   ", b"tokentoken.-", b'secret:\\"'])
def test_the_work_grows_with_the_length_alone(piece: bytes) -> None:
    """Else a MiB of these would take hours."""
    mask_secrets(piece * ((1 << 20) // len(piece)))
