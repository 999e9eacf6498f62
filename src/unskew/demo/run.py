"""Run the demonstration: stream, view and page put together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from unskew.demo.batch import Batch, Summary
from unskew.demo.page import write_page
from unskew.demo.settings import Settings
from unskew.demo.view import View


@dataclass(frozen=True)
class Result:
    """What a run of the demonstration gave; `page` is None if there was nothing to plot."""

    settings: Settings
    batches: tuple[Batch, ...]
    page: Path | None
    interrupted: bool

    @property
    def summary(self) -> Summary:
        """All batches summed up."""
        return Summary.of(self.batches)

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        return {
            "settings": asdict(self.settings),
            "batches": [batch.as_dict() for batch in self.batches],
            "summary": {**asdict(self.summary), "share_saved": self.summary.share_saved},
            "page": self.page,
            "interrupted": self.interrupted,
        }


def run(settings: Settings, view: View, out: Path) -> Result:
    """Run to the end, or to Ctrl-C; write the page to `out` either way if there is something to plot."""
    from unskew.demo.stream import running

    batches: list[Batch] = []
    interrupted = False
    with view:
        try:
            with running(settings) as stream:
                for batch in stream:
                    batches.append(batch)
                    view.show(batches)
        except KeyboardInterrupt:
            interrupted = True
    page = write_page(out, batches, settings) if batches else None
    return Result(settings, tuple(batches), page, interrupted)
