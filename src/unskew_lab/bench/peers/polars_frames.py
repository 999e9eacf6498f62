"""Polars: whole frames in one process, no durable state. What a single machine's memory allows at best."""

from __future__ import annotations

from pathlib import Path

from unskew_lab.bench.peers.peer import Peer, Totals, not_installed


def running_sums(folder: Path) -> Totals:
    """Add each file's sums to those of the files before."""
    import polars as pl

    totals = pl.DataFrame(schema={"key": pl.String, "n": pl.Int64, "total": pl.Float64})
    for path in sorted(folder.glob("*.parquet")):
        rows = pl.read_parquet(path)
        new = rows.group_by("key").agg(pl.len().cast(pl.Int64).alias("n"), pl.col("value").sum().alias("total"))
        totals = pl.concat([totals, new]).group_by("key").agg(pl.col("n").sum(), pl.col("total").sum())
        totals.join(new.select("key"), on="key", how="semi")  # what the batch gives out: the keys it touched
    return {key: (n, total) for key, n, total in totals.iter_rows()}


POLARS = Peer("Polars, one process, no durable state", running_sums, not_installed("polars"))
