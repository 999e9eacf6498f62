"""Kill a job on a real Spark again and again, and judge its rows: ``make chaos KILLS=1000 SEED=1``.

The same command goes on where it was interrupted. ``--round N`` repeats one round.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from chaos.book import ROOT, Book, Code
from chaos.faults import possible
from chaos.processes import archive_classes
from chaos.report import write_page
from chaos.rounds import drawn
from chaos.run import Result, Run

CLOSE_SECONDS = 30
EACH_FAULT_FROM = 30_002  # numbers of the rounds that --each-fault plays, every third


class Chaos:
    """Plays rounds side by side until enough processes were killed; unless told otherwise, until one is not exact."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.folder = given, Path(given.folder)
        self.book = Book(Path(given.book), Code.here(), given.seed)
        self.faults = possible()
        self.active: set[Run] = set()
        self.closing = False
        several = range(0 if given.round is not None else given.lanes)
        self.lanes = [threading.Thread(target=self.lane, daemon=True) for _ in several]
        self.began, self.before = time.monotonic(), self.book.kills.total()

    def play(self, number: int) -> Result:
        """Play a round; its folder stays if it is not exact."""
        names = tuple(self.faults)
        if number >= EACH_FAULT_FROM:
            names = names[(number - EACH_FAULT_FROM) // 3 :][:1]
        planned = drawn(self.given.seed, number, names, self.given.kills_a_round)
        home = self.folder / f"seed-{self.given.seed}-round-{number}"
        run = Run(planned, home)
        self.active.add(run)
        result = run.play(self.faults.get(planned.fault))
        self.active.remove(run)
        if result.verdict == "exact" and not self.given.keep:
            shutil.rmtree(home, ignore_errors=True)
        return result

    def lane(self) -> None:
        """Play one round after the other."""
        while not self._enough() and (number := self._next()) is not None:
            result = self.play(number)
            if self.closing:  # a round that was interrupted says nothing
                return
            self.book.add(result)
            self.tell(result)

    def _enough(self) -> bool:
        minutes, given = (time.monotonic() - self.began) / 60, self.given
        enough = not given.each_fault and self.book.kills.total() >= given.kills
        late = given.minutes is not None and minutes > given.minutes
        return enough or late or (bool(self.book.broken) and not given.go_on)

    def _next(self) -> int | None:
        """Return the number of a round to play: one for each fault that has none yet, or whichever is next."""
        last = EACH_FAULT_FROM + 3 * len(self.faults)
        return self.book.take(range(EACH_FAULT_FROM, last, 3) if self.given.each_fault else itertools.count())

    def close(self) -> None:
        """End the jobs of rounds that are under way."""
        self.closing = True
        for run in list(self.active):
            run.close()
        for lane in self.lanes:
            lane.join(CLOSE_SECONDS)  # a round that has mounted a disk takes it away

    def tell(self, result: Result) -> None:
        """Print what became of a round, and how far we are."""
        kinds = Counter(kill.victim for kill in result.kills)
        what = ", ".join(f"{count} {kind}s" for kind, count in sorted(kinds.items()))
        fault = f", {result.fault}" if result.fault else ""
        print(
            f"round {result.number}: {result.query} on {result.master} into {result.sink}{fault}: "
            f"killed {what or 'nobody'}; {result.batches} batches, {result.seconds:.0f} s: {result.verdict[:2000]}"
        )
        done, elapsed = self.book.kills.total(), time.monotonic() - self.began
        each = elapsed / max(1, done - self.before)
        left = timedelta(seconds=round(each * max(0, self.given.kills - done)))
        phases = Counter(phase for (_, phase), count in self.book.kills.items() for _ in range(count))
        where = ", ".join(f"{count} in {phase}" for phase, count in phases.most_common())
        print(
            f"  {done} of {self.given.kills} kills ({where}), {each:.1f} s a kill, {left} left, "
            f"{len(self.book.broken)} of {len(self.book.rounds)} rounds not exact",
            flush=True,
        )
        if result.verdict != "exact":
            home = self.folder / f"seed-{result.seed}-round-{result.number}"
            print(f"  what is left of it lies in {home}; repeat it with")
            again = f"--round {result.number} --kills-a-round {self.given.kills_a_round}"
            print(f'  make chaos SEED={result.seed} ARGS="{again}"', flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--round", type=int, help="play this round only")
    options.add_argument("--each-fault", action="store_true", help="play a round for each fault other than kills")
    options.add_argument("--lanes", type=int, default=2, help="rounds at once")
    options.add_argument("--minutes", type=float, help="begin no round after so many minutes")
    options.add_argument("--kills-a-round", type=int, help="25, or fewer if few are wanted at all")
    options.add_argument("--folder", default=str(ROOT / "artifacts" / "chaos"))
    options.add_argument(
        "--book", default=str(ROOT / "docs" / "reliability-rounds.jsonl"), help="where results are kept"
    )
    options.add_argument("--page", help="write the report to this page, such as docs/reliability.md")
    options.add_argument("--go-on", action="store_true", help="also after a round that is not exact")
    options.add_argument("--keep", action="store_true", help="keep the folders of exact rounds, too")
    given = options.parse_args()
    if given.kills_a_round is None:
        given.kills_a_round = min(25, -(-given.kills // given.lanes))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    archive_classes()
    chaos = Chaos(given)
    try:
        return play(chaos, given)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here")
        return 130
    finally:
        chaos.close()


def play(chaos: Chaos, given: argparse.Namespace) -> int:
    if given.round is not None:
        result = chaos.play(given.round)
        chaos.tell(result)
        return int(result.verdict != "exact")
    for lane in chaos.lanes:
        lane.start()
        time.sleep(2)
    for lane in chaos.lanes:
        lane.join()
    if given.page:
        write_page(Path(given.page), chaos.book)
    enough = given.each_fault or chaos.book.kills.total() >= given.kills
    print(f"{chaos.book.kills.total()} kills, {len(chaos.book.broken)} of {len(chaos.book.rounds)} rounds not exact")
    return int(bool(chaos.book.broken) or not enough)


if __name__ == "__main__":
    sys.exit(main())
