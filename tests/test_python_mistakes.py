"""Mistakes in Python get our sentences, and what users try first works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("python_mistakes.py")

#: A part of the sentence that each mistake gets.
SENTENCES = {
    "an array": "`expert` is a value of type ndarray, not episodes; make them of arrays with",
    "a path": "`expert` is the name of a file; read it with ld.read('demos.npz')",
    "prepared data": "`expert` is data that is prepared already; give the episodes",
    "a table": "`offline` is a table; make episodes of it with ld.Episodes.from_dataframe(",
    "a list of episodes": "`offline` is a list of episodes; put them together with ld.concatenate(",
    "an array to fit": "`demonstrations` is a value of type ndarray, not episodes; make them of",
    "a table to fit": "`logs` is a table; make episodes of it with ld.Episodes.from_dataframe(",
    "options in a dictionary": "the options of `read` are ReadOptions or keywords, not dict",
    "an array to write": "`episodes` is a value of type ndarray, not episodes",
    "episodes to train": "`data` is a value of type Episodes; make training data with ld.prepare(",
    "an unknown algorithm": "there is no algorithm 'lobsdise'; did you mean 'lobsdice'?",
    "no algorithm": "`algorithm` is a value of type int; it must be an algorithm, such as ld.LobsD",
    "half a step": "`steps` is 1.5; it must be a whole number",
    "a text for a number": "`alpha` is 'small'; it must be a number",
    "a number for callbacks": "`callbacks` is a value of type int; it must be a function",
    "numbers for loggers": "`loggers` is a value of type list; it must be a function, or a list of",
    "an object to check an export": "for the check are a value of type object; give",
    "an unknown option": "training has no option 'batchsize'; did you mean 'batch_size'?",
    "a text for seeds": "`seeds` is 2.5; it must be the number of seeds, or a list of them",
    "only pretraining": "`pretrain` is 50, but there are only 20 steps in all (`steps`)",
    "a folder without a policy": "the folder has no policy; name a run folder, or a file",
    "evaluation: nothing": "`evaluate` returned nothing for one policy; it must return a list with",
    "evaluation: a number": "`evaluate` returned a float for a policy; it must be a dictionary",
    "evaluation: too many": "`evaluate` returned a list of 2 for one policy; it must return a list",
    "evaluation: a dictionary": "`evaluate` returned a dict for one policy; it must return a list",
    "evaluation: no return": "`evaluate` returned a dict with 'score' for a policy; it must be",
    "evaluation: a column": "`evaluate` returned a number 'step', but metrics.csv has a column of",
    "evaluation: a text": "`evaluate` returned a str as 'return'; it must be a number",
    "evaluation: other names": "`evaluate` returned 'x' for some policies only; it must return",
    "evaluation: no function": "`evaluate` is an int; it must be a function of policies, an",
    "evaluation: another environment": "the policy's actions are not those of Pendulum-v1",
    "no environment": "the environment is a value of type int; it must be a Gymnasium environment",
    "no environment made": "made a value of type int, which lacks `reset` or `step`",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    done = subprocess.run(
        [sys.executable, SCRIPT, folder], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_mistake_gets_a_sentence_that_says_what_to_do(found):
    said = found["mistakes"]
    assert said.keys() == SENTENCES.keys()
    assert {name: said[name] for name, words in SENTENCES.items() if words not in said[name]} == {}


def test_lists_texts_and_whole_floats_are_taken_for_what_they_mean(found):
    accepted = found["accepted"]
    assert accepted["box"] == "Box(low=(-1.0,), high=(1.0,))"
    assert accepted["patterns"] == ["obs_*"]
    assert accepted["steps"] == 1000


def test_an_environment_its_class_or_its_maker_evaluates_as_its_name_does(found):
    accepted = found["accepted"]
    *trained, once = accepted["returns"]
    assert once == 1 and len(trained) == 2 and min(trained) > 1
    assert accepted["object"] and accepted["factory"]


def test_a_run_folder_is_read_as_its_last_policy(found):
    assert found["accepted"]["policy"]


def test_only_an_environment_without_a_limit_of_steps_is_warned_of(found):
    before, warning = found["accepted"]["warnings"]
    assert before == 0
    assert warning.startswith("Once has no limit of steps; if an episode never ends, evaluation")


@pytest.mark.parametrize("name", ["run", "data", "episodes"])
def test_objects_show_themselves_on_one_screen(found, name):
    text, html = found["accepted"]["repr"][name], found["accepted"]["html"][name]
    lines = text.splitlines()
    assert len(lines) < 12 and max(map(len, lines)) < 120
    assert lines[0] == name.capitalize()
    for line in lines[1:]:
        assert line.split("  ")[-1].strip() in html
