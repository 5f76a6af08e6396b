"""Rehearse policies: learn the world of some logs, roll them out in it, and judge them."""

from collections.abc import Sequence

from lobsdice.console import progress
from lobsdice.data.episodes import Episodes
from lobsdice.environments.learned import LearnedWorld
from lobsdice.policies.policy import Policy
from lobsdice.training.rehearsal.comparison import Comparison, Shown
from lobsdice.training.rehearsal.estimates import explained
from lobsdice.training.rehearsal.following import following
from lobsdice.training.rehearsal.rollouts import EPISODES, first_states, horizon_of, roll_out
from lobsdice.training.rehearsal.verdict import Rehearsed, judge


def rehearse_policies(
    world: LearnedWorld,
    policies: Sequence[Policy],
    expert: Episodes,
    *,
    episodes: int = EPISODES,
    horizon: int | None = None,
    seed: int = 0,
) -> list[Rehearsed]:
    """Roll policies out in a learned world, and compare them with the demonstrations.

    `learn_world` learns the world. Without `horizon`, episodes last as long as demonstrations do.
    """
    starts = first_states(world, expert, episodes, seed)
    steps = horizon or horizon_of(expert)
    shown, found = Shown(expert, world), []
    with progress("Rehearsing", len(policies)) as advance:
        for policy in policies:
            (rollouts,) = roll_out(world, [policy], starts, steps, seed=seed)
            comparison = Comparison(shown, rollouts)
            follows = following(shown, policy, seed=seed)
            verdict = judge(comparison, follows, explained(world, policy))
            found.append(Rehearsed(verdict, comparison))
            advance()
    return found
