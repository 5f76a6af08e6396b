"""The study of a sweep: settings that Optuna suggests and values that it is told, in a journal.

The journal is a file. Programs of several machines that see it work on one study.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lobsdice.errors import require
from lobsdice.experiments.sweep.space import Range, Setting, Space

JOURNAL = "study.journal"
#: Of the settings that reach a rung, one in this many goes on.
FACTOR = 3


@dataclass(frozen=True)
class Study:
    """An Optuna study. Settings have numbers."""

    study: Any
    space: Space
    larger_is_better: bool

    def ask(self, count: int) -> dict[int, Setting]:
        """New settings, by their numbers."""
        return dict(self._ask() for _ in range(count))

    def _ask(self) -> tuple[int, Setting]:
        trial = self.study.ask()
        # The journal gives each number once. So programs that share a study, and those that go on
        # with one, draw settings of their own.
        self.study.sampler = _sampler(trial.number)
        for name, values in self.space.items():
            if isinstance(values, Range):
                trial.suggest_float(name, values.low, values.high, log=values.log)
            else:
                trial.suggest_categorical(name, values.values)
        return trial.number, dict(trial.params)

    def place(self, number: int, folder: str, run: int) -> None:
        """Note the folder of a setting's runs, and the number of the first."""
        self._trial(number).set_user_attr("folder", folder)
        self._trial(number).set_user_attr("run", run)

    def keep(self, values: dict[int, float], step: int) -> list[int]:
        """Note the values of settings at a rung; return those that are among the best third.

        They are compared with all settings that have come to this rung, also on other machines.
        """
        sign = -1.0 if self.larger_is_better else 1.0
        for number, value in values.items():
            if math.isfinite(value):
                self._trial(number).report(value, step)
        known = [
            trial.intermediate_values[step]
            for trial in self.study.get_trials(deepcopy=False)
            if step in trial.intermediate_values
        ]
        places = max(1, math.ceil(len(known) / FACTOR))
        bound = sorted(sign * value for value in known)[:places]
        return [n for n, value in values.items() if bound and sign * value <= bound[-1]]

    def tell(self, number: int, value: float | None) -> None:
        """Tell the last value of a setting; None if its runs failed."""
        failed = value is None or not math.isfinite(value)
        state = self._states.FAIL if failed else None
        self.study.tell(number, None if failed else value, state=state)

    def prune(self, number: int) -> None:
        """Tell that a setting does not go on."""
        self.study.tell(number, state=self._states.PRUNED)

    def unfinished(self) -> set[int]:
        """The numbers of the settings that were asked for and not told about."""
        return {t.number for t in self.study.get_trials(states=(self._states.RUNNING,))}

    def count(self) -> int:
        """The number of settings so far."""
        return len(self.study.get_trials(deepcopy=False))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each setting: its state, its last value and step, its hyperparameters."""
        rows = []
        for trial in self.study.get_trials(deepcopy=False):
            seen = trial.intermediate_values
            step = max(seen, default=0)
            value = seen.get(step, "") if trial.value is None else trial.value
            row = {"setting": trial.number, "state": trial.state.name.lower(), "step": step}
            rows.append(row | {"value": value, **trial.params, **trial.user_attrs})
        return rows

    def importances(self) -> dict[str, float]:
        """The share of each hyperparameter in the differences of values; empty if unknown."""
        import optuna

        values = {trial.value for trial in self.study.get_trials(states=(self._states.COMPLETE,))}
        if len(values) < 2:
            return {}
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        found = optuna.importance.get_param_importances(self.study, evaluator=evaluator)
        return {name: float(share) for name, share in found.items()}

    def _trial(self, number: int) -> Any:
        import optuna

        found = self.study.get_trials(deepcopy=False)[number]
        return optuna.trial.Trial(self.study, found._trial_id)

    @property
    def _states(self) -> Any:
        import optuna

        return optuna.trial.TrialState


def open_study(folder: Path, space: Space, *, larger_is_better: bool) -> Study:
    """Open the study of a folder, or begin it."""
    optuna = require("optuna", needed_by="lobsdice sweep", extra="sweep")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    journal = optuna.storages.journal
    # This lock works on network disks too, where those with symbolic links may not.
    path = str(folder / JOURNAL)
    backend = journal.JournalFileBackend(path, lock_obj=journal.JournalFileOpenLock(path))
    found = optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        study_name="sweep",
        direction="maximize" if larger_is_better else "minimize",
        load_if_exists=True,
    )
    return Study(found, space, larger_is_better)


def _sampler(seed: int) -> Any:
    import optuna

    return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
