"""Port codes as people write them, against the ports of the registry."""

from __future__ import annotations

from collections.abc import Iterable

from cargo.vocabulary.registry_entries import Port
from cargo.vocabulary.trade_codes import is_port_code


class PortCodes:
    """Codes and names of known ports. There is no table of all UN/LOCODEs: a code of the right form is accepted, known or not."""

    def __init__(self, ports: Iterable[Port] = ()) -> None:
        self._by_name: dict[str, set[str]] = {}
        for port in ports:
            self._by_name.setdefault(_folded(port.name), set()).add(port.locode)
        self._codes = frozenset(code for codes in self._by_name.values() for code in codes)

    def read(self, text: str) -> tuple[str, str]:
        """Return the code that `text` means, or an empty text; and what is odd about it, or an empty text.

        `text`: a code in small or capital letters, with or without blanks, or the name of one known port. A known port's name has
        precedence over a code of the same letters that no port has: `Tokyo`."""
        code = "".join(text.split()).upper()
        if code in self._codes:
            return code, ""
        named = self._by_name.get(_folded(text), set())
        if len(named) == 1:
            return min(named), ""
        if named:
            return "", f"{text!r} is the name of several ports: {', '.join(sorted(named))}"
        if is_port_code(code):
            return code, f"{code} is in no port record"
        return "", f"{text!r} is no UN/LOCODE and no known port's name" if code else "it is not given"


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
