"""Static DataFrames, balanced: per-group functions and cogroups under a routing table made for the rows at hand."""

from unskew.spark.batch.balanced import BalancedBatch, BalancedPair

__all__ = ["BalancedBatch", "BalancedPair"]
