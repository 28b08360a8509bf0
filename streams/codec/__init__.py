"""The block encoding: a column per signal, whole numbers through pcodec, texts through dictionaries and zstd; golden bytes per version."""

from __future__ import annotations

from streams.codec.block_codec import CODEC, BlockCodec

__all__ = ["CODEC", "BlockCodec"]
