"""The sentences on top of a run's page: data, progress and outcome."""

from collections.abc import Sequence
from pathlib import Path

from lobsdice.data.episodes import Episodes
from lobsdice.environments.tasks.table import SOURCES
from lobsdice.errors import plural
from lobsdice.report.run_record import Origin, RunRecord
from lobsdice.report.scores import Summary, brief


def learned(run: RunRecord, expert: Episodes | None, offline: Episodes | None) -> str:
    """Say what was learned from what; without the recordings there are fewer numbers."""
    settings = run.settings
    names = " and ".join(run.algorithms)
    if settings.get("task"):
        given = f"the built-in task {settings['task']}: "
        given += f"{_demonstrations(expert)} and {_episodes(offline)}"
    elif settings.get("expert"):
        demos, logs = _files(settings["expert"]), _files(settings["offline"])
        given = f"{_demonstrations(expert)} in {demos} and {_episodes(offline)} in {logs}"
    elif run.origins:
        given = _of_experiment(run.origins)
    else:
        given = "demonstrations and logs that a Python program gave it"
    return f"{names} learned to act from {given}."


def _files(paths: str | Sequence[str]) -> str:
    """The names of files; in earlier versions one file of demonstrations was a text."""
    names = [paths] if isinstance(paths, str) else paths
    return ", ".join(Path(path).name for path in names)


def _of_experiment(origins: Sequence[Origin]) -> str:
    different = list(dict.fromkeys(origins))
    if len(different) > 1:
        tasks = " and ".join(dict.fromkeys(origin.task for origin in different))
        return f"{len(different)} kinds of data from {tasks}, which are listed below"
    (origin,) = different
    kept = f" (one transition in {origin.subsample})" if origin.subsample > 1 else ""
    counts = zip(origin.mixture, SOURCES, strict=True)
    pieces = f" in pieces of {origin.fragment} steps" if origin.fragment else ""
    told = [f"{count:,} {source}" for count, source in counts if count]
    episodes = ", ".join(text + pieces * text.endswith("expert") for text in told)
    demonstrations = plural(origin.demonstrations, "demonstration")
    return f"{demonstrations}{kept} of {origin.task} and its logged episodes: {episodes}"


def _demonstrations(expert: Episodes | None) -> str:
    if expert is None:
        return "the demonstrations"
    return f"{plural(len(expert), 'demonstration')} ({plural(expert.steps, 'transition')})"


def _episodes(offline: Episodes | None) -> str:
    if offline is None:
        return "the logged episodes"
    return f"{plural(len(offline), 'logged episode')} ({plural(offline.steps, 'transition')})"


def progress(run: RunRecord) -> str:
    """Say how far training has come."""
    runs = plural(len(run.runs), "run")
    if run.finished:
        return f"Training finished: {plural(run.planned, 'step')}, {runs}."
    if not run.rows:
        return f"Training has not reached its first evaluation ({run.planned:,} steps planned)."
    return f"Training is not finished: step {run.done:,} of {run.planned:,}, {runs}."


def outcome(summary: Summary | None, *, variants: int) -> str:
    """Say how good the policies are."""
    if variants > 1:
        return "The runs differ in more than the random seed; they are compared below."
    if summary is None:
        return (
            "No environment was given, so returns are unknown. The measures below need no "
            "environment."
        )
    mean = f"The last {'policies reach' if summary.runs > 1 else 'policy reaches'} "
    mean += f"a {summary.metric} of {brief(summary.last)}"
    if summary.runs > 1:
        mean += f" on average (95 % interval over {summary.runs} seeds: {summary.interval})"
    scale = ", where 0 is a random policy and 100 the expert" if summary.metric == "score" else ""
    return f"{mean}{scale}."
