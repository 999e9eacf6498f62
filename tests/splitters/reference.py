"""The schemes in plain Python, tuple by tuple, as their definitions read."""

from __future__ import annotations

import math

MASK = 2**64 - 1


def scramble(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def salt(seed, i):
    golden = 0x9E3779B97F4A7C15
    return scramble((scramble((seed + golden) & MASK) + (i + 1) * golden) & MASK)


def finalise(word):
    word = ((word ^ (word >> 33)) * 0xFF51AFD7ED558CCD) & MASK
    word = ((word ^ (word >> 33)) * 0xC4CEB9FE1A85EC53) & MASK
    return word ^ (word >> 33)


def candidates(key_hash, workers, choices, seed=0, distinct=False):
    """The paper's H_1, ..., H_d; distinct ones are drawn among the channels that are left."""
    words = [finalise((key_hash & MASK) ^ salt(seed, i)) >> 32 for i in range(choices)]
    if not distinct:
        return [word * workers >> 32 for word in words]
    left, drawn = list(range(workers)), []
    for word in words[:workers]:
        drawn.append(left.pop(word * len(left) >> 32))
    return drawn


def least(loads, channels):
    """The least loaded, the first of several."""
    return min(channels, key=lambda channel: loads[channel])


def greedy(hashes, loads, choices, seed=0, distinct=False):
    loads, channels = list(loads), []
    for h in hashes:
        chosen = least(loads, candidates(h, len(loads), choices, seed, distinct))
        loads[chosen] += 1
        channels.append(chosen)
    return channels


def key_grouping(hashes, loads, seed=0):
    return [candidates(h, len(loads), 1, seed)[0] for h in hashes]


def shuffle(hashes, loads):
    return [(sum(loads) + i) % len(loads) for i in range(len(hashes))]


def static_potc(hashes, loads, seed=0, distinct=False):
    loads, owner, channels = list(loads), {}, []
    for h in hashes:
        if h not in owner:
            owner[h] = least(loads, candidates(h, len(loads), 2, seed, distinct))
        loads[owner[h]] += 1
        channels.append(owner[h])
    return channels


def on_greedy(hashes, loads):
    loads, owner, channels = list(loads), {}, []
    for h in hashes:
        if h not in owner:
            owner[h] = least(loads, range(len(loads)))
        loads[owner[h]] += 1
        channels.append(owner[h])
    return channels


def off_greedy(hashes, loads):
    loads, owner = list(loads), {}
    for h in sorted(set(hashes), key=lambda h: (-hashes.count(h), h)):
        owner[h] = least(loads, range(len(loads)))
        loads[owner[h]] += hashes.count(h)
    return [owner[h] for h in hashes]


def split_keys(hashes, owners, loads, split):
    loads, channels = list(loads), []
    for h, owner in zip(hashes, owners, strict=True):
        chosen = least(loads, split[h]) if h in split else owner
        loads[chosen] += 1
        channels.append(chosen)
    return channels


class PlainSpaceSaving:
    """Entries [hash, count] in a list; the first with the least count gives way."""

    def __init__(self, capacity):
        self.capacity, self.entries, self.n = capacity, [], 0

    def add(self, h):
        self.n += 1
        for entry in self.entries:
            if entry[0] == h:
                entry[1] += 1
                return
        if len(self.entries) < self.capacity:
            self.entries.append([h, 1])
        else:
            entry = min(self.entries, key=lambda entry: entry[1])
            entry[0], entry[1] = h, entry[1] + 1


def enough_choices(shares, workers, epsilon):
    """The least d that satisfies the constraint for every prefix of the head; the workers if none does."""
    d = max(2, math.ceil(shares[0] * workers))
    while d < workers:
        for h in range(1, len(shares) + 1):
            b = 1 - (1 - 1 / workers) ** (h * d)
            carried = sum(shares[:h]) + b**d * sum(shares[h:]) + b**2 * (1 - sum(shares))
            if carried > b + epsilon:
                break
        else:
            return d
        d += 1
    return workers


def heavy(hashes, loads, *, everywhere, threshold, refresh_tuples, epsilon=1e-4, seed=0, distinct=False):
    """D-Choices, or W-Choices if keys of the head may go everywhere."""
    loads, channels, workers = list(loads), [], len(loads)
    sketch, head = PlainSpaceSaving(math.ceil(10 / threshold)), {}
    look_at = min(math.ceil(10 / threshold), refresh_tuples)
    for h in hashes:
        choice = head.get(h) or candidates(h, workers, 2, seed, distinct)
        chosen = least(loads, choice)
        loads[chosen] += 1
        channels.append(chosen)
        sketch.add(h)
        if sketch.n == look_at:
            hot = sorted((-count, key) for key, count in sketch.entries if count >= threshold * sketch.n)
            shares = [-count / sketch.n for count, _ in hot]
            d = workers if everywhere or not hot else enough_choices(shares, workers, epsilon)
            every = list(range(workers))
            head = {key: every if d >= workers else candidates(key, workers, d, seed, distinct) for _, key in hot}
            look_at = min(2 * look_at, look_at + refresh_tuples)
    return channels
