"""`lobsdice data join`, run as a user runs it."""

import json

from recordings import assert_same

from lobsdice.data.formats import read


def test_join_labels_episodes_with_their_files(lobsdice, tmp_path, recording, episodes):
    a, b, both = (tmp_path / f"{name}.npz" for name in ("good", "bad", "both"))
    assert lobsdice("data", "split", recording, "--first", "1", "-o", a, "--rest", b).code == 0
    assert lobsdice("data", "join", a, b, "-o", both).code == 0
    assert_same(read(both), episodes)
    assert read(both).source_names == ("good", "bad")
    assert json.loads(lobsdice("data", "info", both, "--json").out)[0]["sources"] == {
        "good": 1,
        "bad": 3,
    }
