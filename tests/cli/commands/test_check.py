"""`lobsdice data check`, run as a user runs it."""

import json


def test_check_shows_the_training_data(lobsdice, demonstrations, recording):
    files = ("--expert", demonstrations, "--offline", recording)
    report = json.loads(lobsdice("data", "check", *files, "--json").out)
    assert report["expert_pairs"] == 7
    assert report["offline_transitions"] == 10
    assert report["initial_states"] == 4
    assert report["expert_pairs_in_offline"] == 0
    assert "offline transitions 10" in " ".join(lobsdice("data", "check", *files).out.split())


def test_columns_in_another_order_are_noticed_even_after_a_conversion(lobsdice, tmp_path):
    rows = "episode,obs_level,obs_flow,action_0\n0,1,7,-0.5\n0,2,8,1\n0,3,9,\n"
    swapped = "episode,obs_flow,obs_level\n0,5,2\n0,6,3\n"
    for name, text in (("logs", rows), ("demos", swapped)):
        (tmp_path / f"{name}.csv").write_text(text)
        lobsdice("data", "convert", tmp_path / f"{name}.csv", tmp_path / f"{name}.npz")
    assert "obs_level" in lobsdice("data", "info", tmp_path / "logs.npz").out
    files = ("--expert", tmp_path / "demos.npz", "--offline", tmp_path / "logs.npz")
    assert "column 0 is 'obs_flow', not 'obs_level'" in lobsdice("data", "check", *files).err


def test_check_takes_the_options_of_prepare(lobsdice, demonstrations, recording):
    options = ("--initial", "all", "--subsample", "2")
    files = ("--expert", demonstrations, "--offline", recording)
    report = json.loads(lobsdice("data", "check", *files, *options, "--json").out)
    assert report["initial_states"] == 10
    assert report["expert_pairs"] == 4


def test_check_refuses_a_leak_unless_it_is_meant(lobsdice, recording):
    files = ("--expert", recording, "--offline", recording)
    result = lobsdice("data", "check", *files)
    assert result.code == 2 and "10 of the 10 demonstrated pairs" in result.err
    report = json.loads(lobsdice("data", "check", *files, "--allow-leak", "--json").out)
    assert report["expert_pairs_in_offline"] == 10


def test_check_takes_several_offline_files(lobsdice, tmp_path, demonstrations, recording):
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    assert lobsdice("data", "split", recording, "--first", "1", "-o", a, "--rest", b).code == 0
    result = lobsdice("data", "check", "--expert", demonstrations, "--offline", a, b, "--json")
    assert json.loads(result.out)["sources"] == {"a": 3, "b": 7}


def test_demonstrations_need_not_have_the_columns_of_actions(lobsdice, tmp_path):
    """The options name action columns, which only the logs have."""
    demos, logs = tmp_path / "demos.csv", tmp_path / "logs.csv"
    demos.write_text("episode,obs_0\n0,0\n0,1\n0,2\n1,0\n1,2\n")
    logs.write_text("episode,obs_0,torque_0\n0,0,0.5\n0,3,1\n0,1,\n1,2,0\n1,0,1\n1,3,\n")
    named = ("--action-columns", "torque*", "--action-low", "-1", "--action-high", "1")
    files = ("--expert", demos, "--offline", logs)
    report = json.loads(lobsdice("data", "check", *files, *named, "--json").out)
    assert (report["expert_pairs"], report["offline_transitions"]) == (3, 4)
    mistaken = lobsdice("data", "check", "--expert", logs, "--offline", demos, *named)
    assert mistaken.code == 2
    assert f"{demos}: the action pattern 'torque*' matches no column" in mistaken.err


def test_check_refuses_offline_data_without_actions(lobsdice, demonstrations):
    result = lobsdice("data", "check", "--expert", demonstrations, "--offline", demonstrations)
    assert result.code == 2 and "no actions" in result.err


def test_check_says_how_episodes_end(lobsdice, demonstrations, recording):
    files = ("--expert", demonstrations, "--offline", recording)
    ends = json.loads(lobsdice("data", "check", *files, "--json").out)["ends"]
    assert ends["expert"]["terminated"] == ends["expert"]["truncated"] == 1
    assert ends["offline"]["terminated"] == ends["offline"]["truncated"] == 2
    shown = lobsdice("data", "check", *files).out
    assert "ends: 1 of 2 demonstrations terminated, 1 was truncated; 2 of 4 logged" in shown


def test_check_names_columns_that_may_mark_ends(lobsdice, tmp_path):
    demos, logs = tmp_path / "demos.csv", tmp_path / "logs.csv"
    demos.write_text("episode,obs_0,done\n0,0,0\n0,1.5,0\n0,2,1\n1,0,0\n1,2,1\n")
    logs.write_text(
        "episode,obs_0,action,finished\n0,0,1,0\n0,3,1,0\n0,1,,0\n1,2,0,0\n1,0,1,0\n1,3,,1\n"
    )
    files = ("--expert", demos, "--offline", logs)
    result = lobsdice("data", "check", *files)
    assert "'done' may mark ends; if it is true only where the task ended" in result.err
    assert "no episode has an end" in result.out
    missing = lobsdice("data", "check", *files, "--terminated-column", "done")
    assert missing.code == 2 and f"{logs}: there is no column 'done'" in missing.err
    assert "if these differ, first convert each with `lobsdice data convert`" in missing.err


def test_a_folder_of_demonstrations_needs_no_column_of_episodes_where_the_logs_have_one(
    lobsdice, tmp_path
):
    demos, logs = tmp_path / "demos", tmp_path / "logs.csv"
    demos.mkdir()
    for i in range(2):
        (demos / f"trip_{i}.csv").write_text("step,obs_0\n0,0\n1,1.5\n2,2\n")
    logs.write_text("trip,step,obs_0,action\nT1,0,0,1\nT1,1,3,1\nT1,2,1,\n")
    files = ("--expert", demos, "--offline", logs, "--episode-column", "trip")
    report = json.loads(lobsdice("data", "check", *files, "--json").out)
    assert report["expert_pairs"] == 4 and report["offline_transitions"] == 2


def test_demonstrations_need_not_have_the_marks_of_ends_that_logs_have(lobsdice, tmp_path):
    demos, logs = tmp_path / "demos.csv", tmp_path / "logs.csv"
    demos.write_text("episode,obs_0\n0,0\n0,1.5\n0,2\n1,0\n1,2\n")
    logs.write_text("episode,obs_0,action,end,won\n0,0,1,0,\n0,3,1,0,\n0,1,,1,0\n")
    named = ("--terminated-column", "end", "--success-column", "won")
    result = lobsdice("data", "check", "--expert", demos, "--offline", logs, *named, "--json")
    ends = json.loads(result.out)["ends"]
    assert ends["expert"] == {"terminated": 0, "truncated": 2, "succeeded": None, "failed": None}
    assert ends["offline"] == {"terminated": 1, "truncated": 0, "succeeded": 0, "failed": 1}


def test_check_warns_of_values_that_stand_for_missing_ones(lobsdice, tmp_path):
    head, demos, logs = "episode,obs_0,action_0\n", tmp_path / "demos.csv", tmp_path / "logs.csv"
    demos.write_text(head + "".join(f"0,{i / 7},\n" for i in range(6)))
    cells = (-9999 if i == 20 else i / 50 for i in range(40))
    logs.write_text(head + "".join(f"{i // 8},{x},0.5\n" for i, x in enumerate(cells)))
    options = ("--action-low", "0", "--action-high", "1", "--last-row-is-final")
    result = lobsdice("data", "check", "--expert", demos, "--offline", logs, *options)
    assert result.code == 0
    assert "feature obs_0 has the value -9999 in 1 row of the logs, far from all" in result.err
