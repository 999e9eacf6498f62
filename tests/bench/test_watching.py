from __future__ import annotations

import pytest

from made_up import batch, write_history
from unskew_lab.bench import watching


@pytest.mark.slow
def test_server_and_reader_run_while_the_block_does(tmp_path, monkeypatch):
    started = []

    class Noted(watching.subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            started.append(self)

    monkeypatch.setattr(watching.subprocess, "Popen", Noted)
    with watching.watching(write_history(tmp_path / "clicks", [batch(0)])):
        assert [each.poll() for each in started] == [None, None]
    assert all(each.returncode is not None for each in started)
