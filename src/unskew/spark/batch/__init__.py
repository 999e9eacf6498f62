"""Grouped functions without state: per-group functions and cogroups under a routing table made for the rows at hand."""

from unskew.spark.batch.balanced import BalancedBatch, BatchPair, Spread
from unskew.spark.batch.functions import Form
from unskew.spark.batch.stream import BatchStage, OfBatch, OfBatchPair, together

__all__ = ["BalancedBatch", "BatchPair", "BatchStage", "Form", "OfBatch", "OfBatchPair", "Spread", "together"]
