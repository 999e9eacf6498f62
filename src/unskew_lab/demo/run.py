"""Run the demonstration: race, view, recount and page put together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from unskew import machine
from unskew_lab.demo.race import RACERS, Race
from unskew_lab.demo.settings import Settings
from unskew_lab.demo.view import NoView


@dataclass(frozen=True)
class Result:
    """What a race gave."""

    settings: Settings
    race: Race
    # page, kept: where the page and the measurements are; None if there was nothing to compare
    page: Path | None
    interrupted: bool
    # whether the last counts of both are those of a batch job over the same rows; None if it was interrupted
    exact: bool | None = None
    kept: Path | None = None
    watch_page: Path | None = None  # the balanced query's own page, as ``unskew watch --html`` writes it

    def as_dict(self) -> dict[str, object]:
        compared = self.race.common > 0
        return {
            "commit": machine.commit(),
            "machine": machine.describe(),
            "settings": asdict(self.settings),
            "racers": {
                racer: {
                    "figures": asdict(self.race.figures(racer)) if compared else None,
                    "batches": [batch.as_dict() for batch in self.race.batches[racer]],
                }
                for racer in RACERS
            },
            "speedup": self.race.speedup if compared else None,
            "same_result": self.race.same_result if compared else None,
            "exact": self.exact,
            "page": None if self.page is None else str(self.page),
            "watch_page": None if self.watch_page is None else str(self.watch_page),
            "interrupted": self.interrupted,
        }


def run(settings: Settings, view: NoView, out: Path, keep: Path | None = None) -> Result:
    """Run to the end, or to Ctrl-C; write the page to `out` either way if there is something to compare.

    The measurements go to `keep`, from which ``unskew report`` makes the page again. The balanced query's own page is
    live during the race, and is written beside `out` at its end.
    """
    from unskew_lab.demo.live_page import live_page
    from unskew_lab.demo.stream import racing
    from unskew_lab.report.race import document

    race, interrupted, exact = Race(), False, None
    watch_page = out.resolve().with_name(f"{out.stem}-watch.html")
    with view:
        try:
            with racing(settings) as course, live_page(course.checkpoint, watch_page) as url:
                view.page_is_at(url)
                for racer, batch in course.batches:
                    race.add(racer, batch)
                    view.show(race, racer)
                view.say("Counting everything once more in a batch job ...")
                exact = is_exact(race, course.recount)
        except KeyboardInterrupt:
            interrupted = True
    if not race.common:
        return Result(settings, race, None, interrupted)
    result = Result(settings, race, out.resolve(), interrupted, exact, keep, watch_page)
    document(result.as_dict()).write(out)
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.write_text(json.dumps(result.as_dict(), indent=1) + "\n", encoding="utf-8")
    return result


def is_exact(race: Race, recount: Callable[[int], dict[str, int]]) -> bool:
    """Return whether a batch job over the rows of the batches that both ended finds the last counts of both."""
    expected = recount(race.common)
    return all(race.counts(racer) == expected for racer in RACERS)
