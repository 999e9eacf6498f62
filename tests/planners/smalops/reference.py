"""SMALOPS written down plainly, key by key, from the specification; slow and obvious."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Gateway:
    """One decision after the other, with what is remembered in between."""

    channels: int
    hot_by: str = "share"
    threshold: float = 0.001
    cooling_windows: int = 2
    stay: bool = False
    include_cold: bool = False
    draws: dict[int, tuple[int, int]] = field(default_factory=dict)
    cool: dict[int, int] = field(default_factory=dict)

    def hot(self, counts: dict[int, float], total: float) -> set[int]:
        if self.hot_by == "abs":
            return {k for k, n in counts.items() if n > 0 and n >= self.threshold}
        if self.hot_by == "share":
            return {k for k, n in counts.items() if n > 0 and n >= self.threshold * total}
        chosen, reached = set(), 0.0
        for k in sorted(counts, key=lambda k: (-counts[k], k)):
            if reached >= self.threshold * total or counts[k] == 0:
                break
            chosen.add(k)
            reached += counts[k]
        return chosen

    def decide(self, counts, current, home, cold):
        """Return the owner of every key; `cold` is what each channel has from keys that are not listed."""
        total = sum(counts.values()) + sum(cold)
        hot = self.hot(counts, total)
        known = {k for k in hot if k in self.cool or current[k] != home[k]}
        for k in list(self.cool):
            self.cool[k] = 0 if k in hot else self.cool[k] + 1
            if self.cool[k] >= self.cooling_windows:
                del self.cool[k]
        for k in hot:
            self.cool[k] = 0
        owner = {k: current[k] if k in self.cool and current[k] < self.channels else home[k] for k in counts}
        load = [0.0] * self.channels
        if self.include_cold:
            load = [float(c) for c in cold]
            for k in counts:
                if k not in hot:
                    load[owner[k]] += counts[k]
        new = [] if self.stay else sorted(hot - known, key=lambda k: (-counts[k], k))
        for k in sorted(hot - set(new)):
            load[owner[k]] += counts[k]
        for k in new:
            a, b = self.draws[k]
            owner[k] = a if load[a] <= load[b] else b
            load[owner[k]] += counts[k]
        errors = self.rebalance(hot, counts, owner, load)
        return owner, errors

    def rebalance(self, hot, counts, owner, load):
        mean = sum(load) / len(load)
        errors = [sum(abs(x - mean) for x in load)]
        over = sorted((p for p in range(self.channels) if load[p] > mean), key=lambda p: (-load[p], p))
        for s in over:
            for k in sorted((k for k in hot if owner[k] == s), key=lambda k: (counts[k], k)):
                if load[s] <= mean:
                    break
                targets = [
                    t
                    for t in range(self.channels)
                    if load[t] < mean and abs((load[s] - counts[k]) - (load[t] + counts[k])) < load[s] - load[t]
                ]
                if targets:
                    best = min(targets, key=lambda t: (abs((counts[k] + load[t]) - mean), t))
                    owner[k] = best
                    load[s] -= counts[k]
                    load[best] += counts[k]
                    errors.append(sum(abs(x - mean) for x in load))
        return errors
