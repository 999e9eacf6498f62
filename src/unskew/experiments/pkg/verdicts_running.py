"""Claims on Storm: memory here, throughput and latency by the benchmark of the running stream."""

from __future__ import annotations

from unskew.experiments.claims import Claim
from unskew.experiments.pkg.results import Results, near

RUNNING = "needs the running stream: the benchmark of splitting in a running query measures it"


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


def figure_10(r: Results) -> list[Claim]:
    """List the claims on throughput."""
    claims = {
        "f10a": "ten times the delay costs KG 60 % of its throughput, PKG and SG 37 %; both are above KG throughout",
        "f10b": "PKG has more throughput than SG for less memory at every period, and more than KG above 30 s",
        "f10c": "on TW, aggregating every minute, PKG has 175 % more throughput than KG and 30 % less memory than SG",
    }
    return [Claim.cannot_compare(id, f"10{id[-1]}", claim, reason=RUNNING) for id, claim in claims.items()]


def table_3(r: Results) -> list[Claim]:
    """List the claims on latency."""
    claims = {
        "t3a": "equal latency at a delay of 0.1 ms; PKG and SG far below KG at 0.5 and 1 ms",
        "t3b": "PKG's latency is up to 45 % below that of KG",
        "t3c": "the aggregation period hardly changes the latency",
    }
    return [Claim.cannot_compare(id, "Table 3", claim, reason=RUNNING) for id, claim in claims.items()]
