"""Run the demonstration: race, view and page put together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from unskew.demo.page import write_page
from unskew.demo.race import RACERS, Race
from unskew.demo.settings import Settings
from unskew.demo.view import View


@dataclass(frozen=True)
class Result:
    """What a race gave; `page` is None if there was nothing to compare."""

    settings: Settings
    race: Race
    page: Path | None
    interrupted: bool

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        compared = self.race.common > 0
        return {
            "settings": asdict(self.settings),
            "racers": {
                racer: {
                    "figures": self.race.figures(racer) if compared else None,
                    "batches": [batch.as_dict() for batch in self.race.batches[racer]],
                }
                for racer in RACERS
            },
            "speedup": self.race.speedup if compared else None,
            "same_result": self.race.same_result if compared else None,
            "page": self.page,
            "interrupted": self.interrupted,
        }


def run(settings: Settings, view: View, out: Path) -> Result:
    """Run to the end, or to Ctrl-C; write the page to `out` either way if there is something to compare."""
    from unskew.demo.stream import racing

    race = Race()
    interrupted = False
    with view:
        try:
            with racing(settings) as batches:
                for racer, batch in batches:
                    race.add(racer, batch)
                    view.show(race, racer)
        except KeyboardInterrupt:
            interrupted = True
    page = write_page(out, race, settings) if race.common else None
    return Result(settings, race, page, interrupted)
