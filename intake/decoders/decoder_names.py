"""Built-in decoders, by name, and an operator's own, by `module:function`."""

from __future__ import annotations

import importlib
from typing import cast

from intake.decoders.dcsa import decode_dcsa
from intake.decoders.decoder_port import Decoder, OthersFault, call_others
from streams.model.errors import InvalidValue

DECODERS: dict[str, Decoder] = {"dcsa-tnt-3": decode_dcsa}


def find_decoder(name: str) -> Decoder:
    """Return the decoder with this name. Raises ValueError when there is none."""
    if name in DECODERS:
        return DECODERS[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise InvalidValue(
            f"there is no decoder {name!r}: write {' or '.join(DECODERS)}, or module:function for one of your own", code="decoder_unknown"
        )
    try:
        found = call_others(lambda: getattr(importlib.import_module(module), function))
    except OthersFault as problem:
        raise InvalidValue(f"decoder {name!r} can not be imported: {problem}", code="decoder_not_imported") from None
    if not callable(found):
        raise InvalidValue(f"decoder {name!r} is no function", code="decoder_no_function")
    return cast(Decoder, found)
