import re
import sysconfig
from pathlib import Path

from unskew.workloads.words import Words, _library


def test_starts_with_the_first_file_in_order() -> None:
    text = (Path(sysconfig.get_path("stdlib")) / "__future__.py").read_text()
    expected = re.findall(r"[A-Za-z_][A-Za-z_0-9]*", text)
    assert Words().rows(0, len(expected))["key"].to_pylist() == expected


def test_reads_on_and_begins_again() -> None:
    words, length = Words(), _library()[0].size
    assert length > 500_000
    assert words.keys(1, 1000).tolist() == _library()[0][1000:2000].tolist()
    around = words.keys(1, length + 10)  # the second interval starts ten words into the second reading
    assert around[:5].tolist() == _library()[0][10:15].tolist()


def test_real_words_are_skewed() -> None:
    ids, names = _library()
    assert len(names) == Words().domain
    assert 0.02 < (ids == names.to_pylist().index("self")).mean() < 0.1
