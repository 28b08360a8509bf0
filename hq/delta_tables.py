"""Headquarters' Delta tables: where they lie, what their columns are, and which micro-batch each has committed last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from hq.spark_rows import SIGNAL_FIELDS, WIDE, WIDE_DDL
from landfall.system.shared_folders import make_shared

TEMPERATURES = tuple(f.name for f in SIGNAL_FIELDS if f.name.endswith("_c"))
"""The signals that hourly aggregates summarise: every temperature, °C."""

KEY_DDL = "struct<at:bigint, origin:string, offset:bigint, value:{type}>"
"""A signal's last value: the order time (UTC ms), origin and offset of the reading that said it. The greatest struct is the newest
value."""

_KINDS = {pa.float64(): "double", pa.int64(): "bigint", pa.bool_(): "boolean", pa.string(): "string"}


REPLACED_FILES_KEPT = "interval 2 hours"
"""Who reads a table without Spark has so long to finish."""


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table: its folder below the tables' root, its columns as Spark's DDL, how it is clustered, which columns files are skipped
    by."""

    name: str
    columns: str
    cluster_by: tuple[str, ...]
    skip_by: tuple[str, ...]

    def path(self, root: str) -> str:
        """Return where the table lies under `root` (a folder or an object store's URL)."""
        return f"{root.rstrip('/')}/{self.name}"

    def create_sql(self, root: str) -> str:
        """Spark's statement that makes it, if it is not there yet."""
        return (
            f"CREATE TABLE IF NOT EXISTS delta.`{self.path(root)}` ({self.columns}) USING delta CLUSTER BY ({', '.join(self.cluster_by)}) "
            f"TBLPROPERTIES ('delta.dataSkippingStatsColumns' = '{','.join(self.skip_by)}', 'delta.enableDeletionVectors' = 'false', "
            f"'delta.checkpointInterval' = '50', 'delta.deletedFileRetentionDuration' = '{REPLACED_FILES_KEPT}')"
        )

    def committed(self, root: str, writer: str) -> int | None:
        """Return the last version that `writer` committed into the table (its micro-batch id); None when there is none, or no table."""
        try:
            return DeltaTable(self.path(root)).transaction_version(writer)
        except TableNotFoundError:
            return None

    def dataset(self, root: str) -> pa.dataset.Dataset | None:
        """Its latest version for reading without Spark, whole files passed over by their statistics; None when there is no table yet."""
        try:
            return DeltaTable(self.path(root)).to_pyarrow_dataset()
        except TableNotFoundError:
            return None

    def files(self, root: str) -> list[str]:
        """Return the Parquet files of its latest version; none when there is no table yet."""
        try:
            files = DeltaTable(self.path(root)).file_uris()
        except TableNotFoundError:
            return []
        return [unquote(file) for file in files] if is_local(root) else files  # a path is given as it stands in an address


HISTORY = Table(
    "history",
    f"`batch` bigint, `day` date, {WIDE_DDL}",
    ("topic", "day"),
    ("batch", "day", "topic", "stream", "origin", "offset", "device_at_ms", "order_at_ms"),
)
"""Every reading, event, alert and registry record once: the wide row, the micro-batch that brought it, and the UTC day of its order
time."""

STATE = Table(
    "state",
    "`topic` string, `kind` string, `changed_at` struct<at:bigint, origin:string, offset:bigint>, "
    + ", ".join(f"`{f.name}` {KEY_DDL.format(type=_KINDS[f.type])}" for f in SIGNAL_FIELDS),
    ("topic",),
    ("topic",),
)
"""Per container and per ship, by topic and kind: the newest reading's coordinates and each signal's last value."""

HOURS = Table(
    "hours",
    "`topic` string, `hour_at_ms` bigint, `batch` bigint, `count` bigint, "
    + ", ".join(f"`{name}` struct<count:bigint, sum:double, min:double, max:double>" for name in TEMPERATURES),
    ("topic", "hour_at_ms"),
    ("topic", "hour_at_ms", "batch"),
)
"""Per container and UTC hour: how many readings, and of each temperature how many, their sum, least and greatest. `batch`: last changed
by."""

HISTORY_WRITER = "analytics.history"
"""Who writes `history`: the version it committed last is the last micro-batch there."""
TABLES = (HISTORY, STATE, HOURS)
HISTORY_COLUMNS = ("batch", "day", *WIDE.names)


def is_local(root: str) -> bool:
    """Return whether the tables lie in a folder of this machine."""
    return "://" not in root


def make_root(root: str, group: str = "") -> None:
    """Make the tables' folder, when it is one of this machine; its `group` may read it and nobody else may.

    Raises Misuse and OSError as `make_shared`.
    """
    if is_local(root):
        make_shared(Path(root), group)
