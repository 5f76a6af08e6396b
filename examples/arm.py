"""The robot of the tutorial (docs/tutorial.md): a planar arm of two joints, driven by torques.

`record` writes the two files that the tutorial starts from. In the demonstrations a person guides
the arm by hand to one of its four stations. The encoders record the states, but nobody knows the
torques. The logs of ordinary work have torques: trips to all four stations, and tests with random
torques. `drive` lets policies in ONNX files move the arm.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
import tyro
from matplotlib.figure import Figure

#: Two uniform rods of this length (m) and mass (kg); the arm moves horizontally, without gravity.
LENGTH, MASS = 0.5, 1.0
#: Torque (Nm) of a bearing at 1 rad/s.
FRICTION = 0.3
#: The largest torque (Nm) of either motor.
LIMIT = 1.0
#: Seconds between two rows of the log, and between two steps of the simulation.
SECONDS, FINE = 0.05, 0.01
#: Steps of a trip: three seconds.
STEPS = 60
#: Angles (rad) of the joints at which the hand is at a station.
STATIONS = {"A": (1.2, 0.8), "B": (0.4, 1.6), "C": (-0.4, -1.6), "D": (-1.2, -0.8)}
#: The station of the demonstrations.
SHOWN = "C"

#: A function from states (angles and speeds of both joints, one row per arm) to torques.
Controller = Callable[[np.ndarray], np.ndarray]


class Trips(NamedTuple):
    """The trips of several arms at the same time."""

    states: np.ndarray
    """(steps + 1, arms, 4)"""
    torques: np.ndarray
    """(steps, arms, 2)"""


def accelerations(states: np.ndarray, torques: np.ndarray) -> np.ndarray:
    """The solution q̈ of M(q) q̈ = τ - c(q, q̇) - friction, the equation of motion of the arm."""
    _, q2, v1, v2 = states.T
    inertia = MASS * LENGTH**2
    shoulder, elbow = inertia * (5 / 3 + np.cos(q2)), np.full_like(q2, inertia / 3)
    both = inertia * (1 / 3 + np.cos(q2) / 2)
    matrix = np.stack([shoulder, both, both, elbow], axis=1).reshape(-1, 2, 2)
    coriolis = inertia / 2 * np.sin(q2) * np.stack([-v2 * (2 * v1 + v2), v1**2])
    forces = torques - coriolis.T - FRICTION * states[:, 2:]
    return np.linalg.solve(matrix, forces[..., None])[..., 0]


def step(states: np.ndarray, torques: np.ndarray) -> np.ndarray:
    """The states at the next row of the log."""
    for _ in range(round(SECONDS / FINE)):
        speeds = states[:, 2:] + FINE * accelerations(states, torques)
        states = np.concatenate([states[:, :2] + FINE * speeds, speeds], axis=1)
    return states


def move(control: Controller, states: np.ndarray) -> Trips:
    """The trips of a controller from these states."""
    rows, torques = [states], []
    for _ in range(STEPS):
        torques.append(np.clip(control(rows[-1]), -LIMIT, LIMIT))
        rows.append(step(rows[-1], torques[-1]))
    return Trips(np.stack(rows), np.stack(torques))


def starts(random: np.random.Generator, count: int) -> np.ndarray:
    """Random states at rest, near the middle."""
    return np.concatenate([random.uniform(-0.5, 0.5, (count, 2)), np.zeros((count, 2))], axis=1)


def reach(station: str, random: np.random.Generator, *, tremor: float) -> Controller:
    """A controller that goes to a station and stays there."""

    def control(states: np.ndarray) -> np.ndarray:
        way, speeds = STATIONS[station] - states[:, :2], states[:, 2:]
        torques = way * (3.0, 1.2) - speeds * (2.0, 0.5)
        return torques + tremor * random.normal(size=way.shape)

    return control


def shake(random: np.random.Generator) -> Controller:
    """A controller with random torques."""
    return lambda states: random.uniform(-LIMIT, LIMIT, (len(states), 2))


def hands(states: np.ndarray) -> np.ndarray:
    """The positions of the hands, in metres."""
    angles = np.cumsum(states[..., :2], axis=-1)
    return LENGTH * np.stack([np.cos(angles).sum(-1), np.sin(angles).sum(-1)], axis=-1)


def distances(states: np.ndarray, station: str) -> np.ndarray:
    """The distances from the hands to a station, in centimetres."""
    return 100 * np.linalg.norm(hands(states) - hands(np.array(STATIONS[station])), axis=-1)


def write(path: Path, trips: Trips, *, torques: bool) -> None:
    """Write a log with one row per tick. The last state of a run has no torques."""
    names = ["run", "tick", "joint1", "joint2", "speed1", "speed2"]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*names, "torque1", "torque2"] if torques else names)
        for run in range(trips.states.shape[1]):
            for tick, state in enumerate(trips.states[:, run]):
                cells = [f"{x:.6f}" for x in state]
                if torques:
                    cells += (
                        [f"{x:.6f}" for x in trips.torques[tick, run]] if tick < STEPS else ["", ""]
                    )
                rows.writerow([run, tick, *cells])


def together(parts: list[Trips]) -> Trips:
    return Trips(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))


@dataclass(frozen=True)
class Record:
    """Write a file of demonstrations and one of logs."""

    demos: tyro.conf.Positional[Path]
    logs: tyro.conf.Positional[Path]
    stations: tuple[str, ...] = tuple(STATIONS)
    """The stations of the logged trips."""

    def run(self) -> None:
        random = np.random.default_rng(0)
        shown = move(reach(SHOWN, random, tremor=0.05), starts(random, 5))
        parts = [move(reach(to, random, tremor=0.3), starts(random, 40)) for to in self.stations]
        tests = move(shake(random), starts(random, 40))
        write(self.demos, shown, torques=False)
        write(self.logs, together([*parts, tests]), torques=True)


@dataclass(frozen=True)
class Drive:
    """Let policies move the arm from a hundred places, and print where the hand ends."""

    policies: tyro.conf.Positional[tuple[Path, ...]]
    picture: Path | None = None
    """A file to draw the paths of the hand to."""

    def run(self) -> None:
        random = np.random.default_rng(1)
        begin = starts(random, 100)
        who = {"the person": reach(SHOWN, random, tremor=0.05)}
        who |= {path.name: load(path) for path in self.policies}
        trips = {name: move(control, begin) for name, control in who.items()}
        for name, trip in trips.items():
            ends = distances(trip.states[-1], SHOWN)
            typical, most = np.median(ends), np.quantile(ends, 0.9)
            print(f"{name:13}{typical:6.1f} cm from station {SHOWN}; 9 of 10 within {most:.1f} cm")
        if self.picture is not None:
            draw(trips).savefig(self.picture, dpi=150)


def draw(trips: dict[str, Trips]) -> Figure:
    """The paths of the hand in the first trips, with a panel for each controller."""
    figure = Figure(figsize=(3 * len(trips), 4), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(trips), sharex=True, sharey=True))
    for panel, (name, trip) in zip(panels, trips.items(), strict=True):
        x, y = np.moveaxis(hands(trip.states[:, :30]), -1, 0)
        panel.plot(x, y, color="tab:blue", linewidth=0.6)
        panel.plot(x[0], y[0], ".", color="gray", markersize=3)
        for station, angles in STATIONS.items():
            panel.annotate(
                station, hands(np.array(angles)), ha="center", va="center", weight="bold"
            )
        panel.set(title=name, aspect="equal", xlabel="x (m)")
    panels[0].set_ylabel("y (m)")
    return figure


def load(path: Path) -> Controller:
    """The policy in an ONNX file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def control(states: np.ndarray) -> np.ndarray:
        feed = {"observation": states.astype(np.float32)}
        return np.asarray(session.run(["action"], feed)[0])

    return control


if __name__ == "__main__":
    tyro.cli(Record | Drive).run()
