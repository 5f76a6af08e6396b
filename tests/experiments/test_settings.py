"""A folder holds results of one set of settings."""

import pytest

from lobsdice.errors import LobsDICEError
from lobsdice.experiments.settings import check_alike, claim


def test_a_folder_is_claimed_once_and_by_the_same_settings_again(tmp_path):
    claim(tmp_path / "new", {"steps": 8, "sizes": [1, 2]})
    claim(tmp_path / "new", {"steps": 8, "sizes": [1, 2]})
    with pytest.raises(LobsDICEError, match=r"other settings \(seeds, sizes differ\)"):
        claim(tmp_path / "new", {"steps": 8, "sizes": [1], "seeds": 3})


def test_a_setting_inside_of_another_is_named(tmp_path):
    claim(tmp_path, {"recipe": {"steps": 8, "read": {}}})
    with pytest.raises(LobsDICEError, match=r"\(recipe.steps differ\)"):
        claim(tmp_path, {"recipe": {"steps": 9, "read": {}}})


def test_settings_may_differ_where_that_does_no_harm(tmp_path):
    claim(tmp_path, {"steps": 8, "every": 1})
    check_alike(tmp_path, {"steps": 8, "every": 2}, apart_from={"every"})
    with pytest.raises(LobsDICEError, match=r"cannot be reused: other settings \(every differ\)"):
        check_alike(tmp_path, {"steps": 8, "every": 2}, apart_from={"steps"})
    with pytest.raises(LobsDICEError, match=r"has no settings.json: it is no folder"):
        check_alike(tmp_path / "elsewhere", {}, apart_from=set())
