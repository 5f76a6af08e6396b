"""Microseconds per call of a trained policy, and its largest difference from JAX.

python benchmarks/policy_latency.py [--width 256] [--rounds 20] [--calls 1000]

By default the sizes are Hopper's: 11 numbers per state, 3 per action.
"""

import timeit
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from lobsdice.algorithms.networks import TanhGaussian
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import Box
from lobsdice.policies.policy import Policy


@dataclass(frozen=True)
class Benchmark:
    width: int = 256
    state_size: int = 11
    action_size: int = 3
    rounds: int = 20
    calls: int = 1000

    def run(self) -> None:
        net, policy = self.policies()
        random = np.random.default_rng(0)
        s = random.normal(size=(1000, self.state_size)).astype(np.float32)
        by_jax = jax.jit(lambda s: jnp.tanh(net.moments(s)[0]))
        ways = {
            "likeliest action": lambda: policy(s[0]),
            "random action": lambda: policy(s[0], random),
            "likeliest action by jitted JAX": lambda: np.asarray(by_jax(s[0])),
        }
        for name, call in ways.items():
            best, middle = self.measure(call)
            print(f"{name}: {best:.1f} µs a call (median of rounds {middle:.1f})")
        difference = np.abs(np.stack([policy(row) for row in s]) - by_jax(s)).max()
        print(f"largest difference to JAX in {len(s)} observations: {difference:.1e}")

    def policies(self) -> tuple[TanhGaussian, Policy]:
        net = TanhGaussian(jax.random.key(0), self.state_size, self.action_size, self.width)
        weights, biases = (tuple(map(np.asarray, x)) for x in (net.net.weights, net.net.biases))
        zero, one = np.zeros(self.state_size, np.float32), np.ones(self.state_size, np.float32)
        box = Box.of([-1] * self.action_size, [1] * self.action_size)
        return net, Policy(weights, biases, Normaliser(zero, one), box)

    def measure(self, call) -> tuple[float, float]:
        """The best and the median time of several rounds."""
        call()
        seconds = timeit.repeat(call, number=self.calls, repeat=self.rounds)
        return 1e6 * min(seconds) / self.calls, 1e6 * float(np.median(seconds)) / self.calls


if __name__ == "__main__":
    tyro.cli(Benchmark).run()
