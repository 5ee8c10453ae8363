"""Is a marginal of known sites worth learning beside the any-time denoiser?

    python benchmarks/marginal.py    writes docs/results/any_time/marginal.md

log p̄(x_K), the sum of p̄ over the states that agree with x at the known sites K, by three ways from
one trained model, beside the transfer matrix: a pooled head on the frozen trunk, trained as
unbiased TCSIS is, by Itakura–Saito with the unbiased estimate p̂ = w of one draw given x_K; the
weights of n draws; and the chain rule, log q(x_K) of the sites of K one by one, all of whose
questions are answered in one call.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import tcsis
from tcsis.basics.files import write_whole
from tcsis.learn.any_time import given_sites
from tcsis.learn.learned import Learned
from tcsis.learn.models.known_law import draw, way
from tcsis.learn.models.last import log_summed
from tcsis.learn.objectives import itakura_saito
from tcsis.reverse.schedules import farthest_point, singles

PAGE = Path(__file__).parents[1] / "docs" / "results" / "any_time" / "marginal.md"
NUM_SETS, BATCH = 20, 64
DRAWS = (1, 16, 256)


class Head(nn.Module):
    """log p̄(x_K) from what the denoiser says at every site, (b, d, 4) -> (b,), sums over sites and
    a function of their mean; exact where nothing is known."""

    def __init__(self, log_z: float, width: int = 64):
        super().__init__()
        self.log_z = log_z
        self.site = nn.Sequential(nn.Linear(4, width), nn.SiLU(), nn.Linear(width, width))
        self.sum, self.mean = (
            nn.Linear(width, 1),
            nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)),
        )
        for layer in (self.sum, self.mean[-1]):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor) -> Tensor:
        known, conditional = features[..., 0], features[..., 1]
        h = self.site(features) * known.amax(1)[:, None, None]
        learned = self.sum(h).sum((1, 2)) + self.mean(h.mean(1)).squeeze(-1)
        return self.log_z + 0.8 * (known * conditional).sum(1) + learned


@torch.no_grad()
def features(model: Learned, x: Tensor, known: Tensor) -> Tensor:
    """Of every site: whether it is known, log q(x_i | the other known sites) if so and the entropy
    of q if not, and the share of known sites, (b, d) and (d,) -> (b, d, 4)."""
    law = model.module
    sites = torch.arange(law.num_sites)
    others = known & ~torch.eye(law.num_sites, dtype=torch.bool)
    log_q = law(law.questions(sites, others), x)
    own = log_q.gather(-1, x[..., None]).squeeze(-1)
    entropy = -(log_q.exp() * log_q).sum(-1)
    there = known.expand(x.shape).float()
    share = there.mean(1, keepdim=True).expand_as(there)
    return torch.stack([there, own * there, entropy * (1 - there), share], -1)


def train_head(model: Learned, head: Head, seconds: float) -> int:
    """Itakura–Saito with p̂ = w of one draw given the known sites of another draw."""
    optimiser, generator = torch.optim.Adam(head.parameters(), 2e-3), torch.Generator()
    law, begin, step = model.module, time.process_time(), 0
    while (progress := (time.process_time() - begin) / seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = 2e-3 * 0.5 * (1 + math.cos(math.pi * progress))
        x = model.sample(BATCH, seed=step).x.long()
        known = given_sites(law, 1.0, generator)
        log_hat = log_estimate(model, x, known, generator)
        loss = itakura_saito(head(features(model, x, known)), log_hat.float()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        step += 1
    return step


@torch.no_grad()
def log_estimate(model: Learned, x: Tensor, known: Tensor, generator: torch.Generator) -> Tensor:
    """log w of one draw given x_K, (b,): E[w] = p̄(x_K)."""
    law = model.module
    order, last = law.free(known)
    route = way(law, singles(order), known)
    y, log_q = draw(law, route, law.weights(route.questions), x, generator)
    return log_summed(model.target, y, last) - log_q


@torch.no_grad()
def log_chain(model: Learned, x: Tensor, known: Tensor) -> float:
    """log q(x_K) by the chain rule, far-apart sites first, (d,) -> number."""
    law = model.module
    sites = farthest_point(model.target, known.nonzero().squeeze(1))
    route = way(law, singles(sites), torch.zeros_like(known))
    log_q = law(route.questions, x[None])
    return float(log_q.gather(-1, x[None, route.sites, None]).double().sum())


def errors(model: Learned, head: Head, num_known: int) -> dict[str, float]:
    """Root mean square errors of log p̄(x_K) over sets of evidence."""
    target, log_z = model.target, head.log_z
    states = tcsis.exact.draw(target, NUM_SETS, seed=num_known).x.long()
    generator = torch.Generator().manual_seed(num_known)
    found: dict[str, list[float]] = {}
    for x in states:
        known = torch.zeros(target.num_sites, dtype=torch.bool)
        known[torch.randperm(target.num_sites, generator=generator)[:num_known]] = True
        truth = tcsis.exact.solve(target.given(x, known)).log_z
        with torch.no_grad():
            gaps = {"head": float(head(features(model, x[None], known))) - truth}
        gaps["chain rule"] = log_z + log_chain(model, x, known) - truth
        for n in DRAWS:
            gaps[f"{n} draws"] = model.given(x, known).sample(n).log_z - truth
        for name, gap in gaps.items():
            found.setdefault(name, []).append(gap)
    return {name: math.sqrt(sum(g * g for g in all_) / len(all_)) for name, all_ in found.items()}


def main(seconds: float) -> None:
    target = tcsis.targets.Ising(side=10, beta=0.4407)
    model = tcsis.train(target, "any-time", progress=False)
    head = Head(model.sample(10_000).log_z)
    steps = train_head(model, head, seconds)
    rows = {known: errors(model, head, known) for known in (5, 10, 25, 50)}
    print(json.dumps(rows))
    names = list(next(iter(rows.values())))
    table = "\n".join(
        f"| {known} | " + " | ".join(f"{row[name]:.3f}" for name in names) + " |"
        for known, row in rows.items()
    )
    write_whole(PAGE, f"""# A marginal of known sites

`python benchmarks/marginal.py`: Ising 10×10, β = 0.4407, the any-time model of preset `fast` and
{seconds:.0f} s of one core for the head ({steps:,} steps of {BATCH} states). Root mean square error
of log p̄(x_K) over {NUM_SETS} random sets of known sites with the values of exact draws, against the
transfer matrix. The head takes one call and is trained as unbiased TCSIS is, by Itakura–Saito with
p̂ = w; the chain rule takes one call too, in which every known site is asked about given those
before it; draws take a call for every free ordered site.

| known sites | {" | ".join(names)} |
|---|{"---|" * len(names)}
{table}

""")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=150)
    main(parser.parse_args().seconds)
