from __future__ import annotations

import pytest

from unskew.kafka.broker import Broker, _cluster_name, _free_ports, find, start


def test_a_folder_without_a_broker(tmp_path):
    assert find(tmp_path) is None
    (tmp_path / "broker.json").write_text("{")
    assert find(tmp_path) is None


def test_a_process_that_is_not_ours_is_left_alone(tmp_path):
    import os

    stranger = Broker(str(tmp_path), "127.0.0.1:1", os.getpid())
    assert not stranger.running and not stranger.answers
    stranger.stop()  # we are still here


def test_the_two_ports_differ():
    pairs = [_free_ports() for _ in range(50)]
    assert all(first != second for first, second in pairs)


def test_a_cluster_name_is_no_option():
    assert not any(_cluster_name().startswith("-") for _ in range(1000))


@pytest.mark.kafka
def test_it_runs_where_it_says(broker):
    assert broker.running and broker.answers
    assert find(broker.folder) == broker
    assert start(broker.folder) == broker, "it runs already"
    assert broker.bootstrap.startswith("127.0.0.1:")


@pytest.mark.kafka
@pytest.mark.slow
def test_what_was_written_is_there_after_a_restart(broker, tmp_path):
    from confluent_kafka.admin import AdminClient, NewTopic

    with start(tmp_path, short_run=True) as first:
        admin = AdminClient({"bootstrap.servers": first.bootstrap})
        admin.create_topics([NewTopic("kept", 3, 1)])["kept"].result(30)
    assert not first.running and find(tmp_path) is None
    with start(tmp_path, short_run=True) as second:
        topics = AdminClient({"bootstrap.servers": second.bootstrap}).list_topics(timeout=30).topics
        assert len(topics["kept"].partitions) == 3
