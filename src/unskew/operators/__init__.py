"""The operators, one per file, and what they share."""

from unskew.operators.aggregate import Aggregate
from unskew.operators.base import Clock, Mergeable, Operator, Updated
from unskew.operators.decision_tree import DecisionTree
from unskew.operators.heaviest_keys import HeaviestKeys
from unskew.operators.heavy_hitters import HeavyHitters
from unskew.operators.histogram import Histogram
from unskew.operators.history import History
from unskew.operators.interval_join import IntervalJoin
from unskew.operators.learner import Learner
from unskew.operators.naive_bayes import NaiveBayes, NaiveBayesModel
from unskew.operators.naive_bayes_classifier import NaiveBayesClassifier
from unskew.operators.progressive_sort import ProgressiveSort
from unskew.operators.self_join import SelfJoin
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.table_join import TableJoin
from unskew.operators.top_k import TopK
from unskew.operators.tree_growth import Growth, grow
from unskew.operators.tree_model import DecisionTreeModel
from unskew.operators.window_aggregate import WindowAggregate

__all__ = [
    "Aggregate",
    "Clock",
    "DecisionTree",
    "DecisionTreeModel",
    "Growth",
    "HeaviestKeys",
    "HeavyHitters",
    "Histogram",
    "History",
    "IntervalJoin",
    "Learner",
    "Mergeable",
    "NaiveBayes",
    "NaiveBayesClassifier",
    "NaiveBayesModel",
    "Operator",
    "ProgressiveSort",
    "SelfJoin",
    "SessionAggregate",
    "TableJoin",
    "TopK",
    "Updated",
    "WindowAggregate",
    "grow",
]
