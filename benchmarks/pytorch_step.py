"""Milliseconds per step of neural LobsDICE in eager PyTorch, for comparison with engine_speed.py.

PyTorch is not a dependency of the package, so it needs an environment of its own:

    python -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    /tmp/torch/bin/python benchmarks/pytorch_step.py

Losses, sizes and batches are those of the engine: batch 512, three networks of 256 x 256, Hopper's
state and action sizes, both gradient penalties in every 8th step.
"""

import argparse
import math
import time

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn.functional import softplus  # pyright: ignore[reportMissingImports]

STATE, ACTION, BATCH, WIDTH = 11, 3, 512, 256
GAMMA, ALPHA, FLOOR, MARGIN = 0.99, 0.1, 1e-3, 1e-3


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
        self.r, self.nu = network(2 * STATE, 1, False), network(STATE, 1, False)
        self.policy = network(STATE, 2 * ACTION, True)
        nets = [net.to(device) for net in (self.r, self.nu, self.policy)]
        self.adam = torch.optim.Adam([p for net in nets for p in net.parameters()], lr=3e-4)
        rows = 300_000
        self.s, self.s_next = torch.randn(2, rows, STATE, device=device)
        self.a = 2 * torch.rand(rows, ACTION, device=device) - 1
        self.expert, self.init = torch.randn(5000, 2 * STATE), torch.randn(3000, STATE)
        self.expert, self.init = self.expert.to(device), self.init.to(device)

    def step(self, penalty_every: int, penalised: bool) -> None:
        i = torch.randint(len(self.s), (BATCH,), device=self.s.device)
        s, a, s_next = self.s[i], self.a[i], self.s_next[i]
        expert = self.expert[torch.randint(len(self.expert), (BATCH,), device=s.device)]
        init = self.init[torch.randint(len(self.init), (BATCH // 4,), device=s.device)]
        loss = self.losses(s, a, s_next, expert, init)
        if penalised:
            loss = loss + penalty_every * self.penalties(s, s_next, expert)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()

    def losses(self, s, a, s_next, expert, init):
        logits = self.r(torch.cat([expert, torch.cat([s, s_next], 1)])).squeeze(1)
        expert_logit, offline_logit = logits.split(BATCH)
        ratio_loss = softplus(-expert_logit).mean() + softplus(offline_logit).mean()
        r = log_ratio(offline_logit.detach())
        nu_init, nu, nu_next = (
            self.nu(torch.cat([init, s, s_next])).squeeze(1).split([BATCH // 4, BATCH, BATCH])
        )
        x = (r + GAMMA * nu_next - nu) / (1 + ALPHA)
        log_mean = torch.logsumexp(x, 0) - math.log(BATCH)
        nu_loss = (1 - GAMMA) * nu_init.mean() + (1 + ALPHA) * log_mean
        weight = (x - log_mean).detach().exp()
        return ratio_loss + nu_loss - (weight * self.log_prob(s, a)).mean()

    def log_prob(self, s, a):
        mean, log_std = self.policy(s).chunk(2, 1)
        mean, log_std = mean.clamp(-7, 7), log_std.clamp(-5, 2)
        a = a.clamp(-1 + MARGIN, 1 - MARGIN)
        z = (torch.atanh(a) - mean) * (-log_std).exp()
        gaussian = -0.5 * (z**2 + math.log(2 * math.pi)) - log_std
        return (gaussian - torch.log1p(-(a**2))).sum(1)

    def penalties(self, s, s_next, expert):
        offline, half, third = torch.cat([s, s_next], 1), BATCH // 2, BATCH // 3
        x = torch.cat([expert[:half], offline[:half]])
        y = torch.cat([offline[:half], offline.roll(1, 0)[:half]])
        slope = gradient(lambda z: log_ratio(self.r(z)), between(x, y))
        r_penalty = (((slope**2).sum(1) + 1e-12).sqrt() - 1).pow(2).mean()
        ends = torch.cat(expert[:third].split(STATE, 1)), torch.cat([s[:third], s_next[:third]])
        slope = gradient(self.nu, torch.cat([s[:third], between(*ends)]))
        return 0.1 * r_penalty + 1e-4 * (slope**2).sum(1).mean()


def log_ratio(logit):
    return torch.log(torch.sigmoid(logit) + FLOOR) - torch.log(torch.sigmoid(-logit) + FLOOR)


def between(x, y):
    return y + torch.rand(len(x), 1, device=x.device) * (x - y)


def gradient(function, points):
    points = points.requires_grad_()
    return torch.autograd.grad(function(points).sum(), points, create_graph=True)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # pyright: ignore[reportOptionalMemberAccess]
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--penalty-every", type=int, default=8)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    learner, seconds = Learner(options.device), []
    for _ in range(options.rounds + 1):
        start = time.perf_counter()
        for i in range(options.steps):
            learner.step(options.penalty_every, i % options.penalty_every == 0)
        if options.device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    best = 1e3 * min(seconds[1:]) / options.steps
    print(f"eager PyTorch {torch.__version__} on {options.device}: {best:.3f} ms a step")


if __name__ == "__main__":
    main()
