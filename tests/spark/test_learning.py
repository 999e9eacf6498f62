"""What an operator has learned, in the decision for the next batch."""

from __future__ import annotations

import json

from unskew.routing import RoutingTable
from unskew.spark.decision import Decision


def test_tasks_are_told_the_lesson_and_not_all_that_was_learned() -> None:
    decision = Decision(3, RoutingTable.initial(2), learned=b"\x00all\xff", lesson=b"\xfepart")
    kept, told = (Decision.from_json(text) for text in (decision.to_json(), decision.for_tasks()))
    assert (kept.learned, kept.lesson) == (b"\x00all\xff", b"\xfepart")
    assert (told.learned, told.lesson) == (b"", b"\xfepart")


def test_decisions_of_earlier_checkpoints_know_no_lesson() -> None:
    entry = json.loads(Decision(3, RoutingTable.initial(2)).to_json())
    del entry["learned"], entry["lesson"]
    before = Decision.from_json(json.dumps(entry))
    assert (before.learned, before.lesson) == (b"", b"")
