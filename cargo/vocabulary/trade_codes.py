"""Numbers and codes of the trade: ISO 6346 containers, IMO ships, UN/LOCODE places, MMSI, UN numbers and countries, checked and
explained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import mul
from typing import Literal

from stdnum import imo

from cargo.errors import CargoError

_CONTAINER = re.compile(r"[A-Z]{3}[UJZR][0-9]{7}")
_ILU = re.compile(r"[A-Z]{3}[A-EK][0-9]{7}")
_SHIPPERS = re.compile(r"[A-Z]{3}[UJZR][0-9]{6}")
_IDENTITY = re.compile(r"[A-Z0-9-]{1,24}")
_SIZE_TYPE = re.compile(r"[1-9A-Z][0-9A-Z]{3}")
_LOCODE = re.compile(r"[A-Z]{2}[A-Z2-9]{3}")
_IMO = re.compile(r"[0-9]{7}")
_UN_NUMBER = re.compile(r"[0-3][0-9]{3}")
UN_NUMBER_MIN = 4
"""Lowest number of the UN's list of dangerous goods; 1 to 3 were never given."""
_MMSI = re.compile(r"[2-7][0-9]{8}")
"""Pattern of a ship station's MMSI: the first three digits, 201 to 775, are of its country (ITU-R M.585)."""
_COUNTRIES = (
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH "
    "CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN "
    "GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI "
    "LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM "
    "PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD "
    "TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW"
)
"""Codes of ISO 3166-1 alpha-2."""
IDENTITY_CHARS_MAX = 24
_NO_IDENTITY = re.compile("[^A-Z0-9-]")
NumberKind = Literal["iso", "ilu", "owner", "unreadable"]
CANDIDATES_MAX = 20
_VALUES = {character: value for value, character in enumerate("0123456789A BCDEFGHIJK LMNOPQRSTU VWXYZ")}
_WEIGHTS = tuple(1 << place for place in range(10))


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """Result of the check of a container number: the number without spaces, whether it is valid, why not, and possible corrections."""

    number: str
    valid: bool
    problem: str = ""
    candidates: tuple[str, ...] = ()


def compact_container(text: str) -> str:
    """Return `text` in capitals without blanks, dashes and dots: how a container number is stored. Nothing is checked."""
    return re.sub(r"[\s.\-/]", "", text).upper()


def is_container(number: str) -> bool:
    """Return whether `number` is a container number of ISO 6346, in its stored form and with a right check digit."""
    return _CONTAINER.fullmatch(number) is not None and _check_digit(number[:10]) == number[10]


def looks_like_container(number: str) -> bool:
    """Return whether `number` has the form of ISO 6346, right check digit or not."""
    return _CONTAINER.fullmatch(number) is not None


def is_ilu(number: str) -> bool:
    """Return whether `number` is an ILU code of EN 13044 (swap bodies, trailers), with its check digit, which is computed as in ISO
    6346."""
    return _ILU.fullmatch(number) is not None and _check_digit(number[:10]) == number[10]


def is_identity(number: str) -> bool:
    """Return whether a box can have this identity: a number of ISO 6346, or 1 to 24 capitals, digits and dashes of another kind."""
    return _IDENTITY.fullmatch(number) is not None


def stored_number(text: str) -> str:
    """Return the stored form of `text`, a box's name in a sensor's message.

    A number of ISO 6346, an ILU code or a shipper-owned box's is compacted (`msku 123456-5`, `MSKU-1234565`); anything else stays as it
    came."""
    number = compact_container(text)
    known = looks_like_container(number) or is_ilu(number) or _SHIPPERS.fullmatch(number) is not None
    return number if known else text


def number_kind(number: str) -> NumberKind:
    """Return the kind of a box's identity: a valid number of ISO 6346, an ILU code, a shipper-owned box's without check digit, or none of
    these."""
    if is_container(number):
        return "iso"
    if is_ilu(number):
        return "ilu"
    return "owner" if _SHIPPERS.fullmatch(number) else "unreadable"


def listed_identity(text: str) -> str:
    """Return the identity of a box that a list names `text`: as `stored_number`, in capitals, without characters that no identity may have.

    The result is empty where nothing is left."""
    number = stored_number(text.strip().upper())
    return _NO_IDENTITY.sub("", number)[:IDENTITY_CHARS_MAX]


def identity_problem(number: str) -> str:
    """Return in words what a box's identity is, where it is no valid number of ISO 6346; empty for one that is."""
    if is_container(number):
        return ""
    if is_ilu(number):
        return f"{number} is an ILU code (EN 13044), of a swap body or trailer"
    if _SHIPPERS.fullmatch(number):
        return f"{number} has no check digit, as many shipper-owned boxes: it would be {_check_digit(number)}"
    if looks_like_container(number):
        return f"the check digit of {number[:10]} is {_check_digit(number[:10])}, not {number[10]}"
    return f"{number} is no number of ISO 6346"


def check_container(text: str) -> NumberCheck:
    """Return what is wrong with a container number as a person wrote it, in words, and up to 20 valid numbers one slip away.

    A slip is one wrong character, or two neighbours exchanged. The check does not know which containers exist. Never raises."""
    number = compact_container(text)
    if is_container(number):
        return NumberCheck(number, True)
    if is_ilu(number):
        return NumberCheck(number, False, f"{identity_problem(number)}, and no number of ISO 6346")
    if len(number) == 10 and is_container(made := number + _check_digit_or_zero(number)):
        return NumberCheck(number, False, f"the check digit is missing: it would be {made[-1]}", (made,))
    if len(number) != 11:
        return NumberCheck(number, False, f"a container number has 4 letters and 7 digits, this has {len(number)} characters")
    candidates = tuple(sorted(_one_slip_away(number), key=lambda other: (_slip_rank(number, other), other))[:CANDIDATES_MAX])
    if not looks_like_container(number):
        problem = "a container number is three letters of the owner, U, J, Z or R, six digits and a check digit"
        return NumberCheck(number, False, problem, candidates)
    wanted = _check_digit(number[:10])
    return NumberCheck(number, False, f"the check digit of {number[:10]} is {wanted}, not {number[10]}", candidates)


def make_container(owner: str, serial: int) -> str:
    """Return the valid number of the owner's (`MSKU`, four letters) container with this serial (0 to 999,999).

    Raises ValueError for another owner or serial."""
    if not re.fullmatch(r"[A-Z]{3}[UJZR]", owner):
        raise CargoError(f"an owner code is three capitals and U, J, Z or R, not {owner!r}", code="owner_code_invalid")
    if not 0 <= serial <= 999_999:
        raise CargoError(f"a serial is 0 to 999999, not {serial}", code="serial_invalid")
    stem = f"{owner}{serial:06d}"
    return stem + _check_digit(stem)


def is_imo(number: str) -> bool:
    """Return whether `number` is seven digits with the right check digit of an IMO ship number."""
    return _IMO.fullmatch(number) is not None and imo.calc_check_digit(number[:6]) == number[6]


def make_imo(stem: int) -> str:
    """Return the valid IMO number that begins with these six digits (100,000 to 999,999). Raises ValueError for another stem."""
    if not 100_000 <= stem <= 999_999:
        raise CargoError(f"an IMO number begins with six digits, not {stem}", code="imo_stem_invalid")
    return f"{stem}{imo.calc_check_digit(str(stem))}"


def is_size_type(code: str) -> bool:
    """Return whether `code` has the form of a size and type code of ISO 6346: `45R1`."""
    return _SIZE_TYPE.fullmatch(code) is not None


def is_mmsi(number: str) -> bool:
    """Return whether `number` is nine digits of a ship's MMSI."""
    return _MMSI.fullmatch(number) is not None


def is_un_number(number: str) -> bool:
    """Return whether `number` is the four digits of a UN number of dangerous goods; whether it has been given to any is not looked up."""
    return _UN_NUMBER.fullmatch(number) is not None and int(number) >= UN_NUMBER_MIN


def is_country(code: str) -> bool:
    """Return whether `code` is a country of ISO 3166-1: `SG`."""
    return code in _COUNTRIES.split()


def is_locode(code: str) -> bool:
    """Return whether `code` has the form of a UN/LOCODE (`SGSIN`); whether the place exists is not looked up."""
    return _LOCODE.fullmatch(code) is not None


def is_port_code(code: str) -> bool:
    """Return whether `code` is a UN/LOCODE by form and country, or one of no country (`XZ`); whether the place exists is not looked up."""
    return is_locode(code) and (is_country(code[:2]) or code.startswith("XZ"))


def _check_digit(stem: str) -> str:
    """Return the check digit of ISO 6346, annex A: letters count from 10 on except for multiples of 11, each character twice the one before
    it.

    The values are in a table, because intake calls this for every topic that it does not know yet."""
    return str(sum(map(mul, map(_VALUES.__getitem__, stem), _WEIGHTS)) % 11 % 10)


def _check_digit_or_zero(stem: str) -> str:
    return _check_digit(stem) if re.fullmatch(r"[A-Z]{3}[UJZR][0-9]{6}", stem) else "0"


def _one_slip_away(number: str) -> set[str]:
    found: set[str] = set()
    for at, kept in enumerate(number):
        alphabet = "UJZR" if at == 3 else "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if at < 3 else "0123456789"
        found.update(number[:at] + other + number[at + 1 :] for other in alphabet if other != kept)
    for at in range(len(number) - 1):
        found.add(number[:at] + number[at + 1] + number[at] + number[at + 2 :])
    return {other for other in found if is_container(other)}


def _slip_rank(number: str, other: str) -> int:
    """Return the rank of a slip.

    Exchanged neighbours are the likeliest, then a wrong digit, then a wrong check digit, then a wrong letter."""
    changed = [at for at in range(len(number)) if number[at] != other[at]]
    if len(changed) == 2:
        return 0
    return 3 if changed[0] < 4 else 2 if changed[0] == 10 else 1
