"""On a real broker: keys move, consumer and gateway are killed with -9, and every key stays in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PROOF = Path(__file__).with_name("proof.py")
PARTITIONS = 4


def run(*arguments, log):
    with log.open("ab") as output:
        return subprocess.Popen([sys.executable, str(PROOF), *map(str, arguments)], stdout=output, stderr=output)


def lines_of(path):
    data = path.read_bytes() if path.exists() else b""
    return [line.split(b" ") for line in data[: data.rfind(b"\n") + 1].splitlines()]


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(1)


# UNSKEW_PROOF_ROWS=1000000 is the whole of it
@pytest.mark.parametrize("rows", [int(os.environ.get("UNSKEW_PROOF_ROWS", "200000"))])
def test_every_key_in_order_whoever_is_killed(broker, new_topic, tmp_path, rows):
    from tests.kafka.proof import batch_of

    topic = new_topic(PARTITIONS)
    batches = 20
    per_batch = rows // batches
    processed, log = tmp_path / "processed", tmp_path / "log"
    consumers = [run("consumer", broker.bootstrap, topic, "proof", processed, log=log) for _ in range(2)]
    checkpoint = tmp_path / "checkpoint"
    gateway_arguments = ("gateway", broker.bootstrap, topic, PARTITIONS, checkpoint, batches, per_batch)
    gateway = run(*gateway_arguments, log=log)
    kills = 0
    try:
        for share in (0.2, 0.5):
            wait_for(lambda share=share: len(lines_of(processed)) > share * rows, 1200)
            victim = consumers.pop(0)
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            consumers.append(run("consumer", broker.bootstrap, topic, "proof", processed, log=log))
            if gateway.poll() is None:
                gateway.send_signal(signal.SIGKILL)
                gateway.wait()
                kills += 1
                gateway = run(*gateway_arguments, log=log)
        assert gateway.wait(1800) == 0, log.read_text()[-3000:]
        wait_for(lambda: len({(k, v) for k, v, _ in lines_of(processed)}) == batches * per_batch, 600)
    finally:
        for process in (*consumers, gateway):
            process.kill()
            process.wait()

    sent = {}
    for number in range(batches):
        for key, value in zip(*batch_of(number, per_batch), strict=True):
            sent.setdefault(b"key%d" % key, []).append(b"%d" % value)
    seen, numbers, duplicates = {}, {}, 0
    for key, value, sequence in lines_of(processed):
        if int(sequence) <= numbers.get(key, -1):
            duplicates += 1  # recognised by its number
        else:
            numbers[key] = int(sequence)
            seen.setdefault(key, []).append(value)
    assert seen == sent
    decisions = (checkpoint / "unskew" / "decisions").glob("[0-9]*")
    epochs = max(json.loads(path.read_bytes().partition(b"\n")[2])["epoch"] for path in decisions)
    assert epochs >= 3 and kills >= 1
    print(f"{rows} messages, {epochs} epochs of moves, {kills} kills of the gateway, 2 of a consumer,")
    print(f"{duplicates} messages processed twice, all of them recognised by their numbers")
