"""`lobsdice rehearse`, `select`, `play --model` and the report, on a line with a goal and a pit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from line_world import demonstrations, going, made_world, walks
from made_runs import make_run

from lobsdice.cli import main
from lobsdice.data.formats import read, write
from lobsdice.environments.learned import WORLD
from lobsdice.report.rehearsal import kept, section
from lobsdice.training.callbacks import Moment
from lobsdice.training.rehearsal.checkpoints import rehearse_checkpoints
from lobsdice.training.rehearsal.files import recordings_digest
from lobsdice.training.select import CRITERION, badness


@pytest.fixture
def folder(tmp_path):
    """Runs of three policies, which keep the world that was learned from their logs."""
    demos, logs = tmp_path / "demos.npz", tmp_path / "logs.npz"
    write(demos, demonstrations())
    write(logs, walks([-0.8] * 20, np.linspace(-0.1, 0.1, 20), noise=0.3))
    digest = recordings_digest(read(demos), read(logs))
    world = made_world()
    world = replace(world, about=world.about | {"recordings": digest, "steps": 7})
    files = {"expert": str(demos), "offline": [str(logs)]}
    for name, action in {"good": 0.8, "bad": -0.8, "still": 0.0}.items():
        world.save(make_run(tmp_path / name, [going(action)], **files) / WORLD)
    return tmp_path


def test_a_user_whose_logs_hold_no_good_episode_is_told_before_deploying(folder, capsys):
    assert main(["select", str(folder / "bad"), str(folder / "still")]) == 3
    said = capsys.readouterr().out
    assert "none of these reliably reaches the demonstrated end in rehearsal: do not deploy" in said
    assert "of 1, but it arrives too seldom and it is too far from the demonstrations" in said


def test_the_policy_that_works_is_recommended_in_three_sentences(folder, capsys):
    assert main(["select", str(folder / "bad"), str(folder / "good")]) == 0
    take, why, trust = capsys.readouterr().out.strip().splitlines()[-3:]
    assert take.startswith(f"take {folder / 'good'}/policies/last-0.safetensors: its score")
    assert "100 end as the demonstrations do" in why and str(folder / "bad") in why
    assert "held-out rows" in trust
    assert main(["select", str(folder / "bad"), str(folder / "good"), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert "good" in first["policy"] and first["score"] > 0.75 > second["score"]
    assert first["works"] and not second["works"]
    assert first["objections"] == [] and "it arrives too seldom" in second["objections"]


def test_select_takes_what_rehearse_has_found_as_long_as_the_policies_are_the_same(folder, capsys):
    names = [str(folder / name) for name in ("bad", "good")]
    assert main(["rehearse", *names, "--episodes", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["world"]["steps"] == 7 and len(found["policies"]) == 2

    def selected() -> list[dict]:
        assert main(["select", *names, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert selected() == found["policies"]
    # Another policy has to be rehearsed, and so have both of two rehearsals that are not alike.
    assert main(["rehearse", names[0], "--episodes", "30"]) == 0
    capsys.readouterr()
    assert [one["starts"] for one in selected()] == [100, 100]
    main(["rehearse", *names, "--episodes", "20"])
    capsys.readouterr()
    make_run(folder / "new", [going(0.7)])
    policy = "policies/last-0.safetensors"
    (folder / "good" / policy).write_bytes((folder / "new" / policy).read_bytes())
    assert "have changed since they were rehearsed" in str(kept(folder / "good", demonstrations()))
    assert [one["starts"] for one in selected()] == [100, 100]
    assert not isinstance(kept(folder / "good", demonstrations()), str)


def test_a_damaged_report_or_one_that_names_other_files_is_not_believed(folder, capsys, tmp_path):
    good = str(folder / "good")
    assert main(["rehearse", good, "--episodes", "20"]) == 0
    path = folder / "good" / "rehearsal.json"
    report = json.loads(path.read_text())
    first = report["policies"][0]
    outside = tmp_path / "outside.safetensors"
    outside.write_bytes((folder / "good" / first["policy"]).read_bytes())
    for change in (
        {"starts": "many"},
        {"starts": 0},
        {"shared_ends": 0.0},
        {"policy": str(outside)},
        {"policy": "/dev/zero"},
        {"policy": "../outside.safetensors"},
    ):
        path.write_text(json.dumps(report | {"policies": [first | change]}))
        capsys.readouterr()
        assert main(["select", good, "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert found["starts"] == 100, change
    path.write_text(json.dumps(report | {"world": report["world"] | {"quality": {}}}))
    assert main(["select", good, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["starts"] == 100


def test_names_of_policies_in_the_table_are_short_and_whole(folder, capsys, monkeypatch):
    main(["select", str(folder / "bad"), str(folder / "good")])
    said, _, table = capsys.readouterr().out.partition("\n")
    assert said == f"folders in {folder}:" and " good last-0 " in table and " bad last-0 " in table
    monkeypatch.chdir(folder)
    main(["select", "bad", "good"])
    table = capsys.readouterr().out
    assert "folders in" not in table and " good last-0 " in table


def test_a_program_reads_a_list_even_if_there_is_nothing_to_choose_from(folder, capsys):
    for path in (folder / "bad" / "policies").iterdir():
        path.unlink()
    for words in ([], ["--by", "error"]):
        assert main(["select", str(folder / "bad"), "--json", *words]) == 2
        said = capsys.readouterr()
        assert json.loads(said.out) == [] and "yet" in said.err


def test_runs_that_learned_from_other_recordings_are_not_compared(folder, capsys):
    write(folder / "others.npz", walks([0.5] * 5, np.zeros(5), noise=0.1))
    files = {"expert": str(folder / "demos.npz"), "offline": [str(folder / "others.npz")]}
    make_run(folder / "other", [going(0.8)], **files)
    assert main(["rehearse", str(folder / "good"), str(folder / "other")]) == 2
    assert "they learned from different recordings" in capsys.readouterr().err


def test_the_folder_keeps_the_rehearsal_and_the_report_shows_it(folder, capsys):
    assert main(["rehearse", str(folder / "good"), "--episodes", "20"]) == 0
    assert "the first does what was demonstrated: of 20 rehearsed" in capsys.readouterr().out
    found = kept(folder / "good", demonstrations())
    assert not isinstance(found, str)
    page = section(found)
    assert "Where it goes wrong" in page and found.report["policies"][0]["sentence"] in page
    assert "Of 20 rehearsed episodes: finished, those that end as demonstrations do" in page
    assert "do not deploy" not in page
    assert "not rehearsed" in str(kept(folder / "bad", demonstrations()))
    assert main(["rehearse", str(folder / "bad"), "--episodes", "20"]) == 0
    found = kept(folder / "bad", demonstrations())
    assert not isinstance(found, str)
    assert "None of these reliably reaches the demonstrated end in rehearsal: do not deploy." in (
        section(found)
    )


def test_a_policy_plays_in_the_learned_world(folder, capsys):
    words = ["play", str(folder / "good"), "--model", "--episodes", "2"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["why"] for one in found["episodes"]] == ["it ends"] * 2
    assert main([*words, "--video", str(folder / "x.gif")]) == 2
    assert "nothing can draw the states of the learned world" in capsys.readouterr().err


def test_wrong_options_are_sentences(folder, capsys):
    (folder / "bad" / WORLD).unlink()
    assert main(["play", str(folder / "bad"), "--model"]) == 2
    assert "keeps no learned world; `lobsdice rehearse" in capsys.readouterr().err
    assert main(["select", str(folder / "bad"), "--checkpoints"]) == 2
    assert "--checkpoints needs --by error" in capsys.readouterr().err
    for words in (["--steps", "0"], ["--horizon", "0"], ["--episodes", "0"]):
        assert main(["rehearse", str(folder / "bad"), *words]) == 2
        assert f"{words[0]} is 0; it must be at least 1" in capsys.readouterr().err
    assert main(["select", str(folder / "bad"), "--steps", "0"]) == 2
    assert "--steps is 0; it must be at least 1" in capsys.readouterr().err


def test_a_checkpoint_is_kept_by_its_rehearsal(folder):
    expert, offline = (read(folder / name) for name in ("demos.npz", "logs.npz"))
    rehearsal = rehearse_checkpoints(folder / "good", expert, offline)
    found = rehearsal(Moment(1, (), {0: going(0.8), 1: going(-0.8)}, ()))
    assert found is not None
    good, wrong = np.asarray(found["rehearsal"])
    assert good > 0.75 > wrong
    assert list(np.asarray(found["recommended"])) == [1, 0]
    assert badness({"rehearsal": good, "recommended": 1, CRITERION: 1}) < badness(
        {"rehearsal": wrong, "recommended": 0, CRITERION: 0}
    )
    # A recommended policy is preferred, as `select` prefers it.
    assert badness({"rehearsal": 0.7, "recommended": 1, CRITERION: 1}) < badness(
        {"rehearsal": 0.9, "recommended": 0, CRITERION: 0}
    )
