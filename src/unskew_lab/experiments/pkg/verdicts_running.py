"""Claims on Storm: memory by counting, throughput and latency by the benchmark of the running stream."""

from __future__ import annotations

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.pkg.results import Results, near
from unskew_lab.experiments.running import HASH, PKG, SHUFFLE, Judgement, Running, judge_run, newest_run, shown


def memory(r: Results) -> list[Claim]:
    """Judge the counters of a word count."""
    found = {
        scheme: r.value("counters", n, figure="memory", data="wp-pinned", scheme=scheme, sources=8)
        for scheme, n in (("key", 10), ("pkg", 8), ("shuffle", 8))
    }
    printed = {"key": 2.9e6, "pkg": 3.6e6, "shuffle": 7.2e6}
    return [
        Claim.judge(
            "mem",
            "text",
            "counters on WP: 2.9 million with key grouping, 3.6 million with PKG, 7.2 million when shuffled",
            expected="within 10 %; so PKG takes about a third more than key grouping and half of shuffling",
            measured=", ".join(f"{scheme} {counters / 1e6:.2f} M" for scheme, counters in found.items())
            + f"; PKG over key grouping {found['pkg'] / found['key']:.2f}, over shuffling "
            f"{found['pkg'] / found['shuffle']:.2f}",
            holds=all(near(found[scheme], counters, 0.1) for scheme, counters in printed.items()),
        )
    ]


def figure_10(r: Results, running: Running | None = None) -> list[Claim]:
    """Judge the claims on throughput by the newest whole run of ``unskew bench race``."""
    found = newest_run() if running is None else running
    return [
        judge_run(
            "f10a",
            "10a",
            "ten times the delay costs KG 60 % of its throughput, PKG and SG 37 %; both are above KG throughout",
            "KG loses most; PKG and SG are within 10 % of each other and above KG at both delays",
            found,
            _more_delay,
        ),
        *(Claim.cannot_compare(id, f"10{id[-1]}", claim, reason=reason) for id, claim, reason in OPEN_THROUGHPUT),
    ]


def table_3(r: Results, running: Running | None = None) -> list[Claim]:
    """Judge the claims on latency."""
    found = newest_run() if running is None else running
    return [
        judge_run(
            "t3a",
            "Table 3",
            "equal latency at a delay of 0.1 ms; PKG and SG far below KG at 0.5 and 1 ms",
            "within 30 % of each other at the short delay, PKG and SG at most 0.7 of KG at the long one",
            found,
            _latencies,
        ),
        judge_run(
            "t3b",
            "Table 3",
            "PKG's latency is up to 45 % below that of KG",
            "at least 30 % at the long delay",
            found,
            _lower_latency,
        ),
        Claim.cannot_compare("t3c", "Table 3", "the aggregation period hardly changes the latency", reason=PERIOD),
    ]


def _more_delay(r: Running) -> Judgement:
    short, long = ({who: r.value(stream, "batch, median", who) for who in SCHEMES} for stream in DELAYS)
    lost = {who: 1 - short[who] / long[who] for who in SCHEMES}
    holds = max(lost, key=lambda who: lost[who]) == HASH and all(
        near(taken[PKG], taken[SHUFFLE], 0.1) and max(taken[PKG], taken[SHUFFLE]) < taken[HASH]
        for taken in (short, long)
    )
    return (
        f"throughput lost: {shown(lost)}; seconds a batch: {shown(short)}, then {shown(long)}",
        holds,
        ("at the short delay most of a batch is fixed cost, of which the two stages of PKG and SG have more"),
    )


def _latencies(r: Running) -> Judgement:
    short, long = ({who: r.latency(stream, who) for who in SCHEMES} for stream in DELAYS)
    equal = all(near(short[who], short[HASH], 0.3) for who in (PKG, SHUFFLE))
    lower = all(long[who] <= 0.7 * long[HASH] for who in (PKG, SHUFFLE))
    return (
        f"seconds: {shown(short)}, then {shown(long)}",
        equal and lower,
        ("rows come at nine tenths of the highest rate, at which whoever is slower falls behind also at a short delay"),
    )


def _lower_latency(r: Running) -> Judgement:
    below = 1 - r.latency(DELAYS[1], PKG) / r.latency(DELAYS[1], HASH)
    return f"{below:.0%}", below >= 0.3, "a batch's fixed cost is the same for both"


DELAYS = ("word count, short delay", "word count, long delay")
SCHEMES = (HASH, PKG, SHUFFLE)
PERIOD = "partial states are merged once a batch: a batch is the period, and there is no other to choose"
OPEN_THROUGHPUT = (
    ("f10b", "PKG has more throughput than SG for less memory at every period, and more than KG above 30 s", PERIOD),
    (
        "f10c",
        "on TW, aggregating every minute, PKG has 175 % more throughput than KG and 30 % less memory than SG",
        "without a delay a count is limited by Spark's own cost of a row, whoever counts it",
    ),
)
