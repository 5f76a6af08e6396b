"""Steps per second of IQL in eager PyTorch, for comparison with engine_speed.py --algorithms seabo.

    python -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    /tmp/torch/bin/python benchmarks/pytorch_iql.py

Losses, sizes and batches are those of the engine: batch 512, five networks of 256 x 256, Hopper's
state and action sizes, one Adam step for all of them, and targets that follow.
"""

import argparse
import math
import time

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

STATE, ACTION, BATCH, WIDTH = 11, 3, 512, 256
GAMMA, EXPECTILE, BETA, TAU, MARGIN = 0.99, 0.7, 3.0, 0.005, 1e-3


def network(inputs: int, outputs: int, bias: bool) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, outputs, bias=bias),
    )


class Learner:
    def __init__(self, device: str):
        make = lambda: network(STATE + ACTION, 1, False).to(device)  # noqa: E731
        self.critics, self.targets = [make(), make()], [make(), make()]
        self.value = network(STATE, 1, False).to(device)
        self.policy = network(STATE, 2 * ACTION, True).to(device)
        learned = [*self.critics, self.value, self.policy]
        self.adam = torch.optim.Adam([p for net in learned for p in net.parameters()], lr=3e-4)
        rows = 300_000
        self.s, self.s_next = torch.randn(2, rows, STATE, device=device)
        self.a = 2 * torch.rand(rows, ACTION, device=device) - 1
        self.reward, self.goes_on = torch.rand(rows, device=device), torch.ones(rows, device=device)

    def step(self) -> None:
        i = torch.randint(len(self.s), (BATCH,), device=self.s.device)
        s, a, s_next = self.s[i], self.a[i], self.s_next[i]
        loss = self.losses(s, a, s_next, self.reward[i], self.goes_on[i])
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()
        with torch.no_grad():
            for net, target in zip(self.critics, self.targets, strict=True):
                for new, old in zip(net.parameters(), target.parameters(), strict=True):
                    old.lerp_(new, TAU)

    def losses(self, s, a, s_next, reward, goes_on):
        sa = torch.cat([s, a], 1)
        with torch.no_grad():
            q = torch.minimum(*(net(sa).squeeze(1) for net in self.targets))
        v, v_next = self.value(torch.cat([s, s_next])).squeeze(1).split(BATCH)
        u = q - v
        value_loss = ((EXPECTILE - (u < 0).float()).abs() * u**2).mean()
        y = (reward + GAMMA * goes_on * v_next).detach()
        critic_loss = sum(((net(sa).squeeze(1) - y) ** 2).mean() for net in self.critics)
        w = (BETA * u).exp().clamp(max=100).detach()
        return value_loss + critic_loss - (w * self.log_prob(s, a)).mean()

    def log_prob(self, s, a):
        mean, log_std = self.policy(s).chunk(2, 1)
        mean, log_std = mean.clamp(-7, 7), log_std.clamp(-5, 2)
        a = a.clamp(-1 + MARGIN, 1 - MARGIN)
        z = (torch.atanh(a) - mean) * torch.exp(-log_std)
        gaussian = -0.5 * (z**2 + math.log(2 * math.pi)) - log_std
        return (gaussian - torch.log1p(-(a**2))).sum(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    learner = Learner(arguments.device)
    for _ in range(20):
        learner.step()
    started, used = time.perf_counter(), time.process_time()
    for _ in range(arguments.steps):
        learner.step()
    if arguments.device == "cuda":
        torch.cuda.synchronize()
    seconds, used = time.perf_counter() - started, time.process_time() - used
    print(
        f"torch {torch.__version__}, {arguments.device}: {arguments.steps / seconds:.0f} steps/s, "
        f"{1e3 * used / arguments.steps:.2f} ms of processor time a step"
    )


if __name__ == "__main__":
    main()
