"""What a DataFrame's plan says, read from the text that `explain` prints, which is public."""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from threading import Lock, get_ident
from typing import TextIO
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from unskew.errors import SessionError
from unskew.spark.settings import session_settings

# logical nodes that keep the order of rows within a partition; any other node with a child may shuffle
ORDER_KEPT = {"Project", "Filter", "SubqueryAlias", "View", "Union", "Generate", "CollectMetrics"}
ORDER_KEPT |= {"EventTimeWatermark", "MapInArrow", "MapInPandas"}

LEVEL = 3  # characters by which a child is drawn further right than its parent
MAX_LENGTH = "spark.sql.maxPlanStringLength"
LONGEST = str(2**31 - 16)  # Spark's own default

_PRINTING = Lock()  # standard output belongs to the whole process
_DRAWING = re.compile(r"[ :+-]*")
_NODE_NAME = re.compile(r"[!'~]*(\w+)")  # the marks stand for missing input, unresolved and streaming
_CUT = re.compile(r"\.\.\. \d+ more characters\s*$")
_WATERMARK = re.compile(r"EventTimeWatermark (?:[0-9a-f-]{36}, )?(.*)#\d+[^\s#]*: [^#]*$", re.DOTALL)
_SPLITS = re.compile(r"\bsplits=(?:Some\()?(\d+)")


@dataclass(frozen=True)
class Node:
    """One node of a plan: how far right it is drawn, in characters, and its text without drawing and marks."""

    indent: int
    text: str

    @property
    def name(self) -> str:
        """The kind of node, such as ``Project``."""
        return self.text.split(maxsplit=1)[0]


def has_shuffle(rows: DataFrame) -> bool:
    """Tell whether anything above these rows may change their order within a partition from one run to the next.

    A condition with a subquery counts, since Spark may turn it into a join. Its plan is drawn two levels below.
    """
    return any(
        below.indent > node.indent and (node.name not in ORDER_KEPT or below.indent > node.indent + LEVEL)
        for node, below in pairwise(plan_nodes(rows))
    )


def watermark_columns(rows: DataFrame) -> list[str]:
    """Return the columns that have watermarks, by their names where the watermark is set."""
    found = (_WATERMARK.match(node.text) for node in plan_nodes(rows) if node.name == "EventTimeWatermark")
    return [match[1] for match in found if match]


def session_cores(spark: SparkSession) -> int:
    """Return how many tasks Spark runs side by side by default: its default parallelism."""
    text = _explain(spark.range(1))
    found = _SPLITS.search(text)
    if found is None:
        raise SessionError("Spark does not say how many cores it has", where="the plan of range(1)", got=text)
    return int(found[1])


def plan_nodes(rows: DataFrame) -> list[Node]:
    """Return the nodes of the analyzed logical plan, parents before children, with those of subqueries.

    Literals and column names may hold line breaks and look like nodes. So the plan is printed twice, the second time
    below one more alias: nodes are the lines that moved to the right.
    """
    alias = f"unskew_{uuid4().hex}"
    once = _lines_below(alias, rows.alias(alias))
    twice = _lines_below(alias, rows.alias(alias).alias("unskew"))
    nodes: list[Node] = []
    for line, moved in zip(once, twice, strict=False):
        indent = _indent(line)
        if _indent(moved) == indent + LEVEL and (found := _NODE_NAME.match(line, indent)):
            nodes.append(Node(indent, line[found.start(1) :]))
        elif nodes:  # a text of several lines goes on, or a later plan begins, which ends up in the last leaf
            nodes[-1] = Node(nodes[-1].indent, f"{nodes[-1].text}\n{line}")
    return nodes


def _lines_below(alias: str, rows: DataFrame) -> list[str]:
    """Return what is printed after the alias in the analyzed plan; later plans have no aliases."""
    before, found, after = _explain(rows).rpartition(f"SubqueryAlias {alias}\n")
    if not found:
        raise SessionError("Spark prints plans in a form that unskew does not know", where="explain", got=before)
    return after.split("\n")


def _indent(line: str) -> int:
    found = _DRAWING.match(line)
    return found.end() if found else 0


def _explain(rows: DataFrame) -> str:
    text = _printed(rows)
    if _CUT.search(text):
        with session_settings(rows.sparkSession, {MAX_LENGTH: LONGEST}):
            text = _printed(rows)
    return text


def _printed(rows: DataFrame) -> str:
    with _PRINTING, redirect_stdout(_OwnThread(sys.stdout)) as text:
        rows.explain(extended=True)
    return text.getvalue()


class _OwnThread(StringIO):
    """Keeps what this thread prints, and lets others print where they did."""

    def __init__(self, others: TextIO) -> None:
        super().__init__()
        self.others, self.owner = others, get_ident()

    def write(self, text: str) -> int:
        return super().write(text) if get_ident() == self.owner else self.others.write(text)
