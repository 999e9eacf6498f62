"""The results of rounds, kept in a file as they end, so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# the folders whose code a query runs
PRODUCT = tuple(
    f"src/unskew/{folder}"
    for folder in (
        "hashing",
        "load",
        "operators",
        "planners",
        "routing",
        "runtime",
        "sketches",
        "spark",
        "splitters",
        "state",
    )
)


@dataclass(frozen=True)
class Code:
    """What is tested: the commit, and the contents of the folders a query runs, which other commits may share."""

    commit: str
    product: str

    @classmethod
    def here(cls) -> Code:
        changed = _git("status", "--porcelain", "--", *PRODUCT)
        mark = "+changes" if changed else ""
        trees = _git("rev-parse", *(f"HEAD:{folder}" for folder in PRODUCT))
        product = hashlib.sha256(trees.encode()).hexdigest()[:12]
        return cls(_git("rev-parse", "--short=12", "HEAD") + mark, product + mark)


class Book:
    """Rounds of any seed, one line of JSON each. Rounds of other code do not count, and go when the next one ends."""

    def __init__(self, path: Path, code: Code, seed: int) -> None:
        self.path, self.code, self.seed = path, code, seed
        self._lock = threading.Lock()
        self._taken: set[int] = set()
        lines = path.read_text().splitlines() if path.exists() else []
        self.rounds: list[dict[str, Any]] = [
            entry for line in lines if (entry := json.loads(line))["product"] == code.product
        ]

    def take(self, numbers: Iterable[int]) -> int | None:
        """Return the first of some rounds that is neither done nor under way; None if there is none."""
        with self._lock:
            done = self._taken | {entry["number"] for entry in self.rounds if entry["seed"] == self.seed}
            for number in numbers:
                if number not in done:
                    self._taken.add(number)
                    return number
            return None

    def add(self, result: Any) -> None:
        """Keep a result, together with the time and the code, and without paths of this machine."""
        entry = asdict(result) | asdict(self.code) | {"at": datetime.now(UTC).isoformat(timespec="seconds")}
        entry["verdict"] = entry["verdict"].replace(str(ROOT), "PROJECT")
        with self._lock:
            self.rounds.append(entry)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft = self.path.with_suffix(".new")
            draft.write_text("".join(json.dumps(each) + "\n" for each in self.rounds))
            draft.rename(self.path)

    @property
    def kills(self) -> Counter[tuple[str, str]]:
        """How many died, by who and in which phase."""
        return Counter((kill["victim"], kill["phase"]) for entry in self.rounds for kill in entry["kills"])

    @property
    def broken(self) -> list[dict[str, Any]]:
        return [entry for entry in self.rounds if entry["verdict"] != "exact"]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
