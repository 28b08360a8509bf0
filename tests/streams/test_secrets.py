"""Goal: what looks like a secret is left out of what is kept for people, whether it parses or not, and nothing else is."""

from __future__ import annotations

import pytest

from landfall.system.secret_masks import mask_secrets


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
        (b'{"password":["hunter2", "x}"], "t": 1}', b'{"password":***, "t": 1}'),
        (b'{"secret":{"value":"hunter2", "of": [1]}, "t": 1}', b'{"secret":***, "t": 1}'),
        (b'{"secret":{"value":"a}b', b'{"secret":***'),
        (b'"{\\"secret\\": [\\"a]b\\"], \\"t\\": 1}"', b'"{\\"secret\\": ***, \\"t\\": 1}"'),
        (b'"\\\\\\"token\\\\\\": \\\\\\"hunter2\\\\\\", 1"', b'"\\\\\\"token\\\\\\": \\\\\\"***\\\\\\", 1"'),
        (b"<a><password>hunter2</password><t>1</t></a>", b"<a><password>***</password><t>1</t></a>"),
        (b"<w:wifiPassword kind='x'><v>hunter2</v></w:wifiPassword><t/>", b"<w:wifiPassword>***</w:wifiPassword><t/>"),
        (b'<token value="hunter2"/><t/>', b"<token>***<t/>"),
        (b'<user password="hunter2" t="1"/>', b'<user password="***" t="1"/>'),
        (b'<entry key="password">hunter2</entry>', b'<entry key="password">***'),
        (b"<password>hunter2", b"<password>***"),
        (b"Authorization: ApiKey hunter2\nt=1", b"Authorization: ***\nt=1"),
        (b'Authorization: Digest username="x", response="hunter2"\r\nt: 1', b"Authorization: ***\r\nt: 1"),
        (b'Authorization: Digest username="x",\r\n response="hunter2"\r\nt: 1', b"Authorization: ***\r\nt: 1"),
        (b"Proxy-Authorization: Negotiate hunter2", b"Proxy-Authorization: ***"),
        (b"Cookie: session=hunter2; t=1\nHost: x", b"Cookie: ***\nHost: x"),
        (b"password=hun,ter2", b"password=***"),
        (b"password=hun;ter2&t=1", b"password=***&t=1"),
        (b"password=hunter2, t=1", b"password=***, t=1"),
        (b'password: the whole "hunter2" of it\nt=1', b"password: ***\nt=1"),
        (b"password: >\n  hunter2\nt: 1", b"password: ***\nt: 1"),
        (b'password="a""hunter2";t=1', b'password="***";t=1'),
        (b"password='it's hunter2', t=1", b"password='***', t=1"),
        (b"{'token': u'hunter2', 't': 1}", b"{'token': '***', 't': 1}"),
        (b'{"name":"password","value":"hunter2","t":1}', b'{"name":"password","value":"***","t":1}'),
        (b"[(b'authorization', b'hunter2'), (b't', b'1')]", b"[(b'authorization', '***'), (b't', b'1')]"),
        (b"user[password]=hunter2&t=1", b"user[password]=***&t=1"),
        (b'{"psk": "hunter2", "t": null}', b'{"psk": "***", "t": null}'),
        (b"mqtt://user:hunter2@host/t", b"mqtt://user:***@host/t"),
        (b"it sent bearer hunter2, twice", b"it sent bearer ***, twice"),
        (b"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END", b"-----BEGIN RSA PRIVATE KEY-----***-----END"),
    ],
)
def test_the_value_alone_is_left_out(data: bytes, masked: bytes) -> None:
    assert mask_secrets(data) == (masked, 1)


@pytest.mark.parametrize(
    "data",
    [
        *(b"quack", b'{"temp": 4.5}', b"\x00\xff" * 50, b"password=&t=1", b'{"compass": 270, "author": "x"}'),
        *(b'{"note": "he forgot the password"}', b'{"note": "no password", "temp": 4.5}', b"https://host:8080/a@b"),
    ],
)
def test_what_is_no_secret_stays(data: bytes) -> None:
    assert mask_secrets(data) == (data, 0)


@pytest.mark.parametrize("begin", [b"", b"token=", b"token:[", b"<token ", b'token:"', b'token:\\"', b'token","'])
@pytest.mark.parametrize(
    "piece",
    [
        *(b"token", b'token":"', b"password=", b'secret: "\\', b"token   ", b"tokentoken.-", b'secret:\\"', b"secret:[", b"[{("),
        *(b"<token ", b"<token>", b"<", b'token","', b"cookie:", b"token:1\n", b"token=a ", b'token"\\', b"token:x\n ", b"://a:"),
        *(b"token:{'", b"bearer "),
    ],
)
def test_the_work_grows_with_the_length_alone(begin: bytes, piece: bytes) -> None:
    """Otherwise 128 KiB of these would take hours."""
    mask_secrets(begin + piece * ((1 << 17) // len(piece)))
