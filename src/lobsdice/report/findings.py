"""All that there is to report on a run; where a part is missing, the reason stands in its place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lobsdice import console
from lobsdice.data.audit import Audit, audit
from lobsdice.data.episodes import Episodes
from lobsdice.errors import LobsDICEError
from lobsdice.report.clips import Clips, film
from lobsdice.report.recorded import Recorded
from lobsdice.report.weights import Weights, weigh
from lobsdice.training.folder import RunFolder, fingerprint
from lobsdice.training.train import Fleet


@dataclass(frozen=True, eq=False)
class Source:
    """What a run learned from, read again."""

    expert: Episodes
    offline: Episodes
    fleet: Fleet
    file: str | None
    """The one file of all offline episodes, if that is where they are."""


@dataclass(frozen=True, eq=False)
class Findings:
    """What is known of one run; text says why something is not."""

    run: Recorded
    source: Source | str
    audit: Audit | str
    weights: Weights | str
    clips: Clips | str


def gather(
    run: Recorded,
    source: Source | str,
    *,
    environment: str | None,
    with_audit: bool = True,
    with_clip: bool = True,
) -> Findings:
    """Look into everything that was asked for and can be had."""
    source = _unchanged(run, source)
    return Findings(
        run,
        source,
        audit=_audit(source) if with_audit else "it was not asked for (--no-audit)",
        weights=_weights(run, source),
        clips=_clips(run, source, environment) if with_clip else "it was not asked for (--no-clip)",
    )


def _unchanged(run: Recorded, source: Source | str) -> Source | str:
    """Other data would be weighed and audited as if the run had learned from it."""
    if isinstance(source, str):
        return source
    trained_on = [data["fingerprint"] for data in run.config["run"]["data"]]
    if trained_on != [fingerprint(data) for data in source.fleet.datas]:
        return "the recordings are no longer those that the run learned from"
    return source


def _audit(source: Source | str) -> Audit | str:
    if isinstance(source, str):
        return source
    return _attempt(audit, source.expert, source.offline)


def _weights(run: Recorded, source: Source | str) -> Weights | str:
    if isinstance(source, str):
        return source
    with console.waiting("Weighing the recordings"):
        return _attempt(weigh, RunFolder(run.path), source.fleet, source.offline, source.file)


def _clips(run: Recorded, source: Source | str, environment: str | None) -> Clips | str:
    if environment is None:
        return "no environment was named; --env names one"
    expert = None if isinstance(source, str) else source.expert
    with console.waiting("Filming the policy"):
        return _attempt(_film_first, run, environment, expert)


def _film_first(run: Recorded, environment: str, expert: Episodes | None) -> Clips:
    number, policy = next(iter(RunFolder(run.path).policies("last").items()))
    return film(policy, f"The last policy of seed {run.runs[number]['seed']}", environment, expert)


def _attempt(job: Callable[..., Any], *arguments: Any) -> Any:
    """What the job gives, or the reason why it gives nothing."""
    try:
        return job(*arguments)
    except LobsDICEError as error:
        return str(error)
