"""A study of choosing policies without an environment: policies, estimates and true scores.

    python benchmarks/selection.py collect grid --part 0 --out runs/selection
    python benchmarks/selection.py estimate grid grid-noisy --out runs/selection
    python benchmarks/selection.py table --out results/selection

docs/select.md explains the estimates. results/selection/PROTOCOL.md was written before the first
run: it has the worlds, the policies and the numbers to report.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tyro
from fresh_worlds import FIRST, FRESH, SECOND, recordings_of
from scipy.special import betaincinv
from scipy.stats import kendalltau, spearmanr

from lobsdice.algorithms import ALGORITHMS
from lobsdice.console import say
from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic, write_csv
from lobsdice.data.prepare import Data, prepare
from lobsdice.environments.evaluate import episode_seeds, evaluate
from lobsdice.environments.gym import returns
from lobsdice.environments.learned import load_world as read_world
from lobsdice.environments.tasks.table import WORLDS, spec_of
from lobsdice.environments.tasks.task import load
from lobsdice.experiments.endings.worlds import successes
from lobsdice.policies.policy import Policy, load_policy
from lobsdice.training.diagnostics import infer_actions
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, iterate
from lobsdice.training.rehearsal.comparison import Shown
from lobsdice.training.rehearsal.dynamics import learn_world
from lobsdice.training.rehearsal.estimates import (
    Logs,
    demonstration_error,
    disagreement,
    nearness_value,
    visitation_distance,
)
from lobsdice.training.rehearsal.rehearse import rehearse_policies
from lobsdice.training.rehearsal.verdict import (
    NEAR_ENOUGH,
    OFTEN_ENOUGH,
    arrival_of,
    chance_of,
    nearness_of,
    recommended,
    score_of,
)

#: The worlds of each role, fixed before any of their results. No family of worlds both chooses and
#: reports. The last worlds, the fresh ones and those after check what was chosen after each report.
ROLES = {
    "choosing": ("grid", "grid-noisy", "reach", "reach-noisy", "hopper", "hopper-noisy"),
    "reporting": (
        "pointmaze",
        "pointmaze-noisy",
        "cartpole",
        "cartpole-noisy",
        "walker2d",
        "walker2d-noisy",
        "halfcheetah",
    ),
    "last": ("halfcheetah-noisy", "ant", "ant-noisy"),
    "fresh": tuple(FIRST),
    "after": tuple(SECOND),
}
#: Worlds with the same states and actions, whose runs train in one program.
TOGETHER = {
    "grid": ("grid", "grid-noisy"),
    "reach": ("reach", "reach-noisy"),
    "pointmaze": ("pointmaze", "pointmaze-noisy"),
    "cartpole": ("cartpole", "cartpole-noisy"),
    "hopper": ("hopper", "hopper-noisy"),
    "walker2d": ("walker2d", "walker2d-noisy", "halfcheetah"),
    "ant": ("ant", "ant-noisy"),
    "halfcheetah": ("halfcheetah-noisy",),
    **{world: (world,) for world in FRESH},
}
#: Another algorithm for each, or LobsDICE with another reading of ends.
OTHER = {
    "grid": ("lobsdice", "keep"),
    "reach": ("smodice", "restart"),
    "pointmaze": ("lobsdice", "stay"),
    "cartpole": ("bco", "restart"),
    "hopper": ("demodicefo", "restart"),
    "walker2d": ("opolo", "restart"),
    "ant": ("rce", "restart"),
    "halfcheetah": ("opolo", "restart"),
    "pendulum": ("smodice", "restart"),
    "valley": ("lobsdice", "keep"),
    "acrobot": ("bco", "restart"),
    "doublependulum": ("opolo", "restart"),
    "reacher": ("demodicefo", "restart"),
    "ferry": ("rce", "restart"),
    "track": ("lobsdice", "stay"),
    "tank": ("bco", "restart"),
    "hover": ("smodice", "restart"),
    "turret": ("demodicefo", "restart"),
    "crane": ("rce", "restart"),
}
#: Episodes of the expert, of a medium policy and of a random one, for MuJoCo's tasks.
MIXTURE = {"expert": 20, "medium": 30, "random": 40}


class Size(NamedTuple):
    """The size of networks and batches, and the steps after which policies are kept."""

    width: int
    batch: int
    early: int
    middle: int
    last: int


SMALL, LONGER = Size(64, 128, 200, 600, 2000), Size(64, 128, 200, 1000, 5000)
#: The success rates of the demonstrators, from results/endings/demonstrators.csv.
DEMONSTRATORS = {
    "grid": 1.0,
    "grid-noisy": 0.953,
    "reach": 0.996,
    "reach-noisy": 0.897,
    "pointmaze": 1.0,
    "pointmaze-noisy": 0.989,
    "cartpole": 1.0,
    "cartpole-noisy": 0.963,
}
#: A policy works from the first score on, and fails below the second.
WORKS, FAILS = 90, 50
#: Random lists of eight policies of a world.
LISTS = 300
#: The estimates, with -1 for those of which small values are good.
SIGNS = {
    "rehearsal": 1,
    "select": 1,
    "third_score": 1,
    "second_score": 1,
    "first_score": 1,
    "finished": 1,
    "near": 1,
    "apart": -1,
    "following": 1,
    "explained": 1,
    "error": -1,
    "fitted_q": 1,
    "dice": -1,
    "disagreement": -1,
    "dual": -1,
}
#: The columns of which scores and recommendations are made.
PARTS = ("near", "apart", "guessing", "arrived", "following", "explained", "shared_ends")
COLUMNS = ("spearman", "kendall", "regret", "regret_of_8", "failure_of_8")
HEAD = "| estimate | Spearman | Kendall | regret | regret in lists of 8 | failures chosen |"
RULE = "|---|---|---|---|---|---|"
#: Shares of the logs.
EVERYTHING, FIFTH, NO_EXPERT, EXPERT = range(4)
SHARES = ("everything", "a fifth", "no expert", "only expert")


@dataclass(frozen=True)
class Arm:
    """A run, with what differs from the defaults."""

    algorithm: str
    setting: dict[str, float]
    share: int = EVERYTHING
    terminal: str = "restart"

    @property
    def name(self) -> str:
        parts = [f"{key} {value:g}" for key, value in self.setting.items()]
        parts += [SHARES[self.share]] if self.share else []
        parts += [self.terminal] if self.terminal != "restart" else []
        return ", ".join(parts) or "default"


def size_of(family: str) -> Size:
    """Small and short in the first study, so that failures are among its policies."""
    return LONGER if family in FRESH else SMALL


def fleets(family: str) -> list[tuple[list[Arm], tuple[int, ...]]]:
    """The runs of each world that train together, and the steps whose policies are kept."""
    settings = ({}, {"alpha": 10.0}, {"gamma": 0.9}, {"ratio_penalty": 10.0})
    arms = [Arm("lobsdice", setting) for setting in settings]
    arms += [Arm("lobsdice", {}, share) for share in (FIFTH, NO_EXPERT)]
    cloned = [Arm("bc", {}, share) for share in range(len(SHARES))]
    algorithm, terminal = OTHER[family]
    early, middle, last = size_of(family)[2:]
    return [
        (cloned, (early, last)),
        (arms, (early, middle, last)),
        ([Arm(algorithm, {}, terminal=terminal)], (middle, last)),
    ]


@dataclass(frozen=True, eq=False)
class Recorded:
    """The demonstrations and logs of a world."""

    expert: Episodes
    offline: Episodes
    finite: bool = False
    """True if there are so few states that episodes share pairs of states by chance."""

    def data(self, rows: np.ndarray | slice = slice(None)) -> Data:
        """The data of a learner, with some of the logged episodes."""
        logs = self.offline.select(np.arange(len(self.offline))[rows])
        return prepare(self.expert, logs, allow_leak=self.finite)


def load_world(world: str) -> Recorded:
    """The recordings of a world."""
    if world in FRESH:
        # At a wall of the valley, episodes share a pair of states by chance.
        return Recorded(*recordings_of(world), finite=world == "valley")
    task = load(world, offline=None if world in WORLDS else MIXTURE)
    return Recorded(task.expert, task.offline, task.spec.finite)


def datasets(recorded: Recorded) -> list[Data]:
    """The data of each of `SHARES`."""
    logs, source = recorded.offline, recorded.offline.source
    assert source is not None
    good = source == logs.source_names.index("expert")
    return [recorded.data(rows) for rows in (slice(None), slice(None, None, 5), ~good, good)]


Found = tuple[dict[str, Any], Policy]


def train(
    worlds: Sequence[str],
    arms: Sequence[Arm],
    steps: Sequence[int],
    datas: Sequence[Data],
    size: Size,
) -> Iterator[Found]:
    """The policies of a fleet at some steps, each with its facts and the measures of training."""
    cases = [(i, world, arm) for i, world in enumerate(worlds) for arm in arms]
    fleet = Fleet(
        tuple(
            Member(_algorithm(arm, size), 0, len(SHARES) * i + arm.share, _options(arm, size))
            for i, _, arm in cases
        ),
        tuple(datas),
    )
    diagnosis = fleet.diagnosis()
    for now in iterate(fleet, every=200):
        if now.step not in steps:
            continue
        measures = diagnosis(now.state)
        for i, policy in enumerate(fleet.policies(now.state)):
            _, world, arm = cases[i]
            facts = {"world": world, "algorithm": arm.algorithm, "setting": arm.name}
            facts |= {"step": now.step}
            yield facts | {f"train_{k}": float(x[i]) for k, x in measures.items()}, policy


def _algorithm(arm: Arm, size: Size) -> Any:
    kind: Any = ALGORITHMS[arm.algorithm]
    known = {f.name for f in fields(kind)}
    return kind(
        **{
            "width": size.width,
            "policy_rate": 1e-3,
            **{k: v for k, v in arm.setting.items() if k in known},
        }
    )


def _options(arm: Arm, size: Size) -> Options:
    terminal: Any = arm.terminal
    return Options(steps=size.last, batch_size=size.batch, average=0.99, terminal=terminal)


def scores(world: str, policies: Sequence[Policy]) -> list[dict[str, float]]:
    """The true return of each policy, and its rate of success where episodes succeed."""
    found = evaluate(policies, environment_of(world), episodes=40 if has_ends(world) else 5)
    rows = [{"return": float(np.nanmean(x))} for x in found]
    if world in WORLDS:
        return [
            row | {"success": float(successes(world, x).mean())}
            for row, x in zip(rows, found, strict=True)
        ]
    return rows


def has_ends(world: str) -> bool:
    """True for worlds with short episodes, of which more are played."""
    return world in WORLDS or world in FRESH


def environment_of(world: str) -> Any:
    """The environment of a world."""
    return FRESH[world].make() if world in FRESH else world


@dataclass(frozen=True)
class Collect:
    """Train the policies of some worlds and measure their true scores."""

    family: tyro.conf.Positional[str]
    """A key of TOGETHER."""
    out: Path
    """Folder of the policies."""
    part: int
    """Number of the fleet, 0 to 2."""

    def __call__(self) -> None:
        worlds, size = TOGETHER[self.family], size_of(self.family)
        datas = [data for world in worlds for data in datasets(load_world(world))]
        arms, steps = fleets(self.family)[self.part]
        found = list(train(worlds, arms, steps, datas, size))
        say(f"{self.family}: {len(found)} policies")
        for world in worlds:
            mine = [(facts, policy) for facts, policy in found if facts["world"] == world]
            true = scores(world, [policy for _, policy in mine])
            rows = []
            for i, ((facts, policy), score) in enumerate(zip(mine, true, strict=True)):
                name = f"{self.part}-{i:02d}.safetensors"
                policy.save(self.out / world / name)
                rows.append({"file": name, **facts, **score})
            write_csv(self.out / world / f"policies-{self.part}.csv", rows)


def load_policies(folder: Path) -> tuple[list[dict[str, str]], list[Policy]]:
    """The rows of a world's policies, and the policies."""
    paths = sorted(folder.glob("policies-*.csv"))
    rows = [row for path in paths for row in csv.DictReader(path.open())]
    return rows, [load_policy(folder / row["file"]) for row in rows]


def true_score(world: str, row: dict[str, str]) -> float:
    """The score of a policy: 0 is useless, and 100 as good as the demonstrator."""
    if world in WORLDS:
        return 100 * float(row["success"]) / DEMONSTRATORS[world]
    if world in FRESH:
        zero, full = bounds(world)
        return 100 * (float(row["return"]) - zero) / (full - zero)
    return float(spec_of(world).normalised(float(row["return"])))


@cache
def bounds(world: str) -> tuple[float, float]:
    """The mean returns of random actions and of a fresh world's demonstrator."""
    fresh = FRESH[world]
    expert = returns(fresh.make(), fresh.expert, episode_seeds(200, 1)).mean()
    if fresh.succeeds:
        return 0.0, float(expert)
    act = fresh.controllers()["random"]
    return float(returns(fresh.make(), act, episode_seeds(200, 1)).mean()), float(expert)


@dataclass(frozen=True)
class Estimate:
    """Estimate the policies of some worlds offline, and write them beside their true scores."""

    worlds: tyro.conf.Positional[tuple[str, ...]]
    out: Path
    """Folder of the policies."""

    def __call__(self) -> None:
        for world in self.worlds:
            write_csv(self.out / world / "estimates.csv", self.rows(world))

    def rows(self, world: str) -> list[dict[str, Any]]:
        """The true score and all estimates of each policy of a world."""
        recorded, folder = load_world(world), self.out / world
        data = recorded.data()
        facts, policies = load_policies(folder)
        path = folder / "world.safetensors"
        if not path.exists():
            learn_world(data, steps=5000).save(path)
        learned = read_world(path)
        episodes = 100 if has_ends(world) else 40
        found = rehearse_policies(learned, policies, recorded.expert, episodes=episodes)
        logs = Logs(data, Shown(recorded.expert, learned))
        states, actions = infer_actions(data)
        raw = learned.raw(np.asarray(states))
        apart = disagreement(policies, raw)
        return [
            {key: row[key] for key in ("world", "file", "algorithm", "setting", "step")}
            | {"score": true_score(world, row)}
            | {"finished": one.verdict.finished / one.verdict.starts, "near": one.verdict.near}
            | {"apart": one.verdict.apart, "guessing": one.verdict.guessing / one.verdict.starts}
            | {"arrived": one.verdict.arrived, "following": one.verdict.following}
            | {"explained": one.verdict.explained, "shared_ends": one.verdict.shared_ends}
            | {"error": demonstration_error(policy, raw, np.asarray(actions))}
            | {"fitted_q": nearness_value(logs, policy)}
            | {"dice": visitation_distance(logs, policy), "disagreement": apart[i]}
            | {"dual": row.get("train_held_out_nu_loss", "")}
            for i, (row, policy, one) in enumerate(zip(facts, policies, found, strict=True))
        ]


def read_estimates(path: Path) -> dict[str, dict[str, np.ndarray]]:
    """The columns of estimates.csv for each world."""
    worlds: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(path.open()):
        worlds.setdefault(row["world"], []).append(row)
    names = ("score", "recommended", "strict", *SIGNS)
    for row in (row for rows in worlds.values() for row in rows):
        row |= judged({k: float(row[k]) for k in PARTS} | {"starts": 1.0})
    return {
        world: {name: np.array([float(row[name] or "nan") for row in rows]) for name in names}
        for world, rows in worlds.items()
    }


def judged(facts: dict[str, float]) -> dict[str, str]:
    """The present score, the ones that it replaced, and both rules of recommendation."""
    near, arrival, following = nearness_of(facts), arrival_of(facts), facts["following"]
    found = {
        "rehearsal": score_of(facts),
        "select": recommended(facts) + score_of(facts),  # recommended policies come first
        "third_score": (facts["explained"] + following + arrival) / 3 / max(facts["apart"], 1.0),
        "second_score": 0.5 * (following + arrival) / max(facts["apart"], 1.0),
        "first_score": 0.5 * (near + arrival) * following,
        "recommended": recommended(facts),
        "strict": near >= NEAR_ENOUGH and arrival >= OFTEN_ENOUGH,
    }
    return {name: str(float(x)) for name, x in found.items()}


def lists_of(count: int) -> list[np.ndarray]:
    """Random lists of eight of so many policies."""
    random = np.random.default_rng(0)
    return [random.choice(count, 8, replace=False) for _ in range(LISTS)]


def measure(score: np.ndarray, x: np.ndarray) -> dict[str, float]:
    """The quality of an estimate's ranking and choice of the policies of a world."""
    known = np.isfinite(x)
    score, x = score[known], x[known]
    regrets, failed, could = [], 0, 0
    for some in lists_of(len(x)):
        taken, best = score[some[x[some].argmax()]], score[some].max()
        regrets.append(best - taken)
        could += best >= WORKS
        failed += bool(best >= WORKS and taken < FAILS)
    flat = len(np.unique(x)) < 2
    return {
        "spearman": np.nan if flat else float(np.asarray(spearmanr(x, score))[0]),
        "kendall": np.nan if flat else float(np.asarray(kendalltau(x, score))[0]),
        "regret": float(score.max() - score[x.argmax()]),
        "regret_of_8": float(np.mean(regrets)),
        "failure_of_8": failed / could if could else np.nan,
    }


def interval(values: Sequence[float]) -> str:
    """The mean over worlds, and its 95 % interval by bootstrap over worlds."""
    found = np.array([x for x in values if np.isfinite(x)])
    if not len(found):
        return "–"
    draws = np.random.default_rng(0).choice(found, (2000, len(found))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{found.mean():.2f} ({low:.2f} to {high:.2f})"


def recommendations(worlds: Sequence[dict[str, np.ndarray]]) -> str:
    """The numbers of recommended and of other policies, and of those that work among each."""
    lines = []
    for name, rule in (("Recommended", "recommended"), ("By nearness and arrival alone", "strict")):
        score, taken = (np.concatenate([w[key] for w in worlds]) for key in ("score", rule))
        yes, no = score[taken > 0], score[taken == 0]
        lines.append(
            f"{name}: {len(yes)} of {len(score)} policies. {int((yes >= WORKS).sum())} of these "
            f"score at least {WORKS}, and {int((yes < FAILS).sum())} less than {FAILS}. Of the "
            f"others, {int((no >= WORKS).sum())} score at least {WORKS}."
        )
        for least in (WORKS, FAILS) if len(yes) else ():
            good = int((yes >= least).sum())
            low, high = clopper_pearson(good, len(yes))
            lines.append(
                f"  The share of at least {least} is {good / len(yes):.2f} "
                f"({low:.2f} to {high:.2f}), as if policies were independent."
            )
    return "\n".join(lines)


def clopper_pearson(good: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share (Clopper and Pearson, 1934)."""
    low = float(betaincinv(good, n - good + 1, 0.025)) if good else 0.0
    return low, float(betaincinv(good + 1, n - good, 0.975)) if good < n else 1.0


def warnings_of(worlds: Sequence[dict[str, np.ndarray]]) -> str:
    """The share of lists of eight without a recommendation: with a working policy, and without."""
    silent: dict[bool, list[bool]] = {True: [], False: []}
    for world in worlds:
        for some in lists_of(len(world["score"])):
            works = bool(world["score"][some].max() >= WORKS)
            silent[works].append(not world["recommended"][some].any())
    cells = [f"{np.mean(x):.0%} of {len(x)}" if x else "none" for x in silent.values()]
    return f"Nothing is recommended in {cells[0]} lists with a working policy, {cells[1]} others."


def differences(worlds: Sequence[dict[str, np.ndarray]], other: str) -> str:
    """The score minus another estimate, paired over worlds."""
    found = [
        [measure(w["score"], SIGNS[name] * w[name]) for name in ("rehearsal", other)]
        for w in worlds
    ]
    cells = [interval([one[key] - two[key] for one, two in found]) for key in COLUMNS]
    return f"| minus {other} | {' | '.join(cells)} |"


def chances(worlds: Sequence[dict[str, np.ndarray]]) -> list[str]:
    """A table of predicted chances and of how often they come true."""
    score, x = (np.concatenate([w[key] for w in worlds]) for key in ("score", "rehearsal"))
    chance, good = np.vectorize(chance_of)(x), score >= FAILS
    lines = [f"| chance of at least {FAILS} | policies | mean chance | did |", "|---|---|---|---|"]
    for low, high in pairwise((0, 0.1, 0.3, 0.6, 1.01)):
        some = (chance >= low) & (chance < high)
        if some.any():
            cells = (some.sum(), f"{chance[some].mean():.2f}", f"{good[some].mean():.0%}")
            lines.append(f"| {low} to {min(high, 1)} | {' | '.join(map(str, cells))} |")
    # A forecast that says the same share everywhere is what the score has to beat.
    brier, base = np.mean((chance - good) ** 2), good.mean() * (1 - good.mean())
    return [
        *lines,
        "",
        f"Brier score {brier:.3f}; the share itself, {good.mean():.2f}: {base:.3f}.",
    ]


@dataclass(frozen=True)
class Tables:
    """Write the tables and the figure from estimates.csv."""

    out: Path
    """Folder of estimates.csv."""

    def __call__(self) -> None:
        worlds = read_estimates(self.out / "estimates.csv")
        rows, lines = [], []
        for role, names in (ROLES | {"all": sum(ROLES.values(), ())}).items():
            if not (there := [name for name in names if name in worlds]):
                continue
            lines += [f"## {role.capitalize()} worlds: {', '.join(there)}", "", HEAD, RULE]
            for estimate, sign in SIGNS.items():
                found = [measure(worlds[w]["score"], sign * worlds[w][estimate]) for w in there]
                rows += [
                    {"role": role, "world": w, "estimate": estimate} | one
                    for w, one in zip(there, found, strict=True)
                    if role != "all"
                ]
                cells = [interval([one[key] for one in found]) for key in COLUMNS]
                lines.append(f"| {estimate} | {' | '.join(cells)} |")
            some = [worlds[w] for w in there]
            lines += [differences(some, other) for other in ("second_score", "error")]
            lines += ["", recommendations(some), "", warnings_of(some), "", *chances(some), ""]
        write_csv(self.out / "summary.csv", rows)
        with atomic(self.out / "tables.md") as temporary:
            temporary.write_text("\n".join(lines))
        self.draw(worlds)

    def draw(self, worlds: dict[str, dict[str, np.ndarray]]) -> None:
        """Write the figure: the score in rehearsal against the true one, a panel for each world."""
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        order = [world for names in ROLES.values() for world in names if world in worlds]
        rows = -(-len(order) // 5)
        figure, axes = plt.subplots(rows, 5, figsize=(12, 2 * rows), sharey=True)
        for axis, world in zip(axes.ravel(), order, strict=False):
            taken = worlds[world]["recommended"] > 0
            for some, colour in ((~taken, "grey"), (taken, "tab:blue")):
                x, y = (worlds[world][key][some] for key in ("rehearsal", "score"))
                axis.scatter(x, y, s=12, color=colour)
            axis.axhline(WORKS, color="grey", linewidth=0.5)
            axis.set_title(world, fontsize=9)
        for axis in axes.ravel()[len(order) :]:
            axis.set_visible(False)
        figure.supxlabel("score in rehearsal (blue: recommended)")
        figure.supylabel("true score")
        figure.tight_layout()
        with atomic(self.out / "selection.png") as temporary:
            figure.savefig(temporary, dpi=110, format="png")


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict(
        {"collect": Collect, "estimate": Estimate, "table": Tables}
    )()
