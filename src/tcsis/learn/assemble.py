"""From a config and a target to a model, a loss and a proposal: names become functions, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from tcsis import identity
from tcsis.basics.checks import derive_seed
from tcsis.learn import buffers as proposals
from tcsis.learn import estimates, losses
from tcsis.learn.buffers import Proposal
from tcsis.learn.config import Config, Network, Part
from tcsis.learn.estimates import Estimate
from tcsis.learn.losses import Loss
from tcsis.learn.models import diffusion, marginal, symmetry
from tcsis.learn.models.bethe import Bethe
from tcsis.learn.models.crowd import Crowd
from tcsis.learn.models.labels import ByAppearance, ByName
from tcsis.learn.models.sequential import Sequential
from tcsis.learn.models.skips import Density, FirstOrder, Nothing, Skip
from tcsis.learn.nn.dit import DiT, chain_dit, graph_dit, lattice_dit, set_dit
from tcsis.learn.nn.lattice import LatticeNet
from tcsis.noise import LogLinear, UniformNoise
from tcsis.reverse.schedules import farthest_point, last_class, remaining
from tcsis.targets.base import Target
from tcsis.targets.pairwise import Pairwise

Buffer = Callable[[], Tensor]

MOST_MESSAGES = 128
"""Belief propagation is used up to this many pairs of values that a site has with its neighbours,
degree·V²: beyond, it would cost more than the network."""

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def make_noise(config: Config, target: Target) -> UniformNoise:
    return UniformNoise(target.num_values, LogLinear(eps=config.noise_eps))


# -- models ---------------------------------------------------------------------------------------


def make_model(config: Config, target: Target, seed: int) -> nn.Module:
    """The model with its first weights, which depend on the seed alone."""
    makers = {
        ("self-normalized", "sequential"): make_sequential,
        ("unbiased", "sequential"): make_sequential,
        ("self-normalized", "parallel"): make_diffusion,
        ("unbiased", "parallel"): make_marginal,
    }
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "weights"))
        model = makers[config.method, config.schedule](config, target)
    return model.to(target.device, DTYPES[config.dtype])


def make_sequential(config: Config, target: Target) -> Sequential:
    last = None if target.colouring is None else last_class(target)
    sites = None if last is None else remaining(target.num_sites, last)
    alike = config.symmetric and target.symmetries.value_permutation
    labels = ByAppearance(target.num_values) if alike else ByName(target.num_values)
    order = farthest_point(target, sites)
    return Sequential(target.num_values, order, last, labels, config.network.width)


def make_diffusion(config: Config, target: Target) -> nn.Module:
    trunk = make_trunk(config.network, target, diffusion.in_width(target.num_values))
    field = make_field(config, target)
    network = diffusion.SiteNetwork(
        optionally_compiled(config, trunk), config.network.width, target.num_values, field,
        make_symmetry(config, target),
    )  # fmt: skip
    noise = make_noise(config, target)
    if config.objective == "score-entropy":
        return diffusion.ScoreModel(noise, network)
    return diffusion.DenoiserModel(noise, network)


def check_some_signal(config: Config) -> None:
    if config.noise_eps == 0:
        raise ValueError(
            "noise_eps is 0, and in pure noise a score says nothing: expected noise_eps above 0, "
            "such as 0.001, with the objective score-entropy"
        )


def make_marginal(config: Config, target: Target) -> marginal.MarginalModel:
    trunk = make_trunk(config.network, target, target.num_values + 1)
    alike = config.symmetric and target.symmetries.value_permutation and target.num_values <= 3
    forms = (marginal.all_relabellings if alike else marginal.one_form)(target.num_values)
    noise = make_noise(config, target)
    crowd = Crowd(noise, target.num_sites, config.crowd_size, forms) if config.crowd_size else None
    skips, fields = known_terms(config, target, noise, crowd)
    return marginal.MarginalModel(
        noise, optionally_compiled(config, trunk), config.network.width, forms, skips, fields
    )


def known_terms(
    config: Config, target: Target, noise: UniformNoise, crowd: Crowd | None
) -> tuple[list[Skip], list[diffusion.Field]]:
    """What is known of marginal and denoiser without learning."""
    if crowd is not None and not config.preconditioned:
        raise ValueError(
            f"preconditioned is false and crowd_size is {config.crowd_size}: expected crowd_size 0 "
            "without preconditioning"
        )
    if crowd is None:
        return [make_skip(config, target)], [make_field(config, target)]
    if is_sparse(target):
        bethe = Bethe(target, noise)
        return [bethe, crowd], [bethe.cavity, crowd.cavity]
    return [FirstOrder(target, noise), crowd], [make_field(config, target), crowd.cavity]


def is_sparse(target: Target) -> TypeGuard[Pairwise]:
    """Whether belief propagation is cheap."""
    if not isinstance(target, Pairwise):
        return False
    return target.degree * target.num_values**2 <= MOST_MESSAGES


def make_skip(config: Config, target: Target) -> Skip:
    return Density(target) if config.preconditioned else Nothing(target.num_values)


def make_trunk(network: Network, target: Target, in_width: int) -> nn.Module:
    """Features of every site from inputs of every site; see ``tcsis.learn.nn``."""
    sizes = (in_width, network.width, network.depth)
    makers: dict[str, Callable[[], nn.Module]] = {
        "lattice": lambda: lattice_network(target, *sizes),
        "dit": lambda: transformer(target, *sizes, network.heads),
        "graph": lambda: graph_dit(adjacency(target), *sizes, network.heads),
    }
    if network.name not in makers:
        raise ValueError(
            f"network.name is {network.name!r}: expected one of {', '.join(makers)} for a "
            "parallel schedule"
        )
    return makers[network.name]()


def lattice_network(target: Target, in_width: int, width: int, depth: int) -> LatticeNet:
    lattice = target.lattice
    if lattice is None:
        raise ValueError(f"{target} has no lattice: expected network.name dit or graph")
    return LatticeNet(
        lattice.shape, in_width, width, depth,
        periodic=lattice.periodic, sites=not target.symmetries.translations,
    )  # fmt: skip


def transformer(target: Target, in_width: int, width: int, depth: int, heads: int) -> DiT:
    """Positions as the target has them: on its lattice, or none but the site itself."""
    if target.lattice is None:
        return set_dit(target.num_sites, in_width, width, depth, heads)
    if len(target.lattice.shape) == 1 and not target.lattice.periodic:
        return chain_dit(target.num_sites, in_width, width, depth, heads)
    return lattice_dit(
        target.lattice.shape, in_width, width, depth, heads, periodic=target.lattice.periodic
    )


def adjacency(target: Target) -> Tensor:
    """(d, d) bool, True where two sites interact."""
    if not isinstance(target, Pairwise):
        raise ValueError(f"{target} is not pairwise: expected network.name dit")
    near = torch.zeros(target.num_sites, target.num_sites, dtype=torch.bool)
    near[target.edges[:, 0], target.edges[:, 1]] = True
    return near | near.T


def make_field(config: Config, target: Target) -> diffusion.Field:
    if not config.preconditioned:
        return diffusion.no_field(target)
    if isinstance(target, Pairwise):
        return diffusion.mean_field(target)
    return diffusion.present_ratios(target)


def make_symmetry(config: Config, target: Target) -> symmetry.Symmetrise:
    if not (config.symmetric and target.symmetries.value_permutation):
        return symmetry.as_it_is
    return symmetry.averaged if target.num_values == 2 else symmetry.sorted_values


def optionally_compiled(config: Config, trunk: nn.Module) -> nn.Module:
    if config.compiled:
        trunk.compile()
    return trunk


# -- losses ---------------------------------------------------------------------------------------


def make_loss(
    config: Config, target: Target, model: nn.Module, buffer: Buffer | None = None
) -> Loss:
    """``buffer`` gives all training states as they are now; some estimators use them."""
    if config.schedule == "sequential":
        return make_sequential_loss(config, target, model)
    noise = make_noise(config, target)
    if isinstance(model, marginal.MarginalModel):
        divergence = pick(config, divergences(model))
        if is_joint(config):
            compare = losses.joints(model, divergence, config.num_calls)
            estimate = make_joint_estimate(config, target, model, buffer)
        else:
            check_scores(config)
            compare = losses.marginals(model, divergence)
            estimate = make_marginal_estimate(config, target, model)
        return losses.denoising(noise, losses.shared_times, estimate, compare)
    if config.objective == "score-entropy":
        check_some_signal(config)
    makers = {
        "path": lambda model: losses.paths(model, config.num_calls),
        "cross-entropy": losses.denoisers,
        "score-entropy": losses.scores,
    }
    compare = pick(config, makers)(model)
    times: losses.DrawTimes = losses.shared_times
    if config.times == "mixed":
        times = losses.mixed_times(mixed_order(target))
    return losses.denoising(noise, times, make_estimate(config, target, noise), compare)


def mixed_order(target: Target) -> Tensor:
    """Sites outside the last class first, where there is one, each part far-apart ones first."""
    if target.colouring is None:
        return farthest_point(target)
    last = last_class(target)
    first = farthest_point(target, remaining(target.num_sites, last))
    return torch.cat([first, farthest_point(target, last)])


def check_scores(config: Config) -> None:
    if config.scores == "learned":
        raise ValueError(
            f"scores is 'learned', and the estimator {config.estimator.name} trains the marginal "
            "alone: expected a joint estimator, such as joint_annealed, or scores taylor or "
            "assembled"
        )


def is_joint(config: Config) -> bool:
    return config.estimator.name.startswith("joint_")


def make_sequential_loss(config: Config, target: Target, model: nn.Module) -> Loss:
    makers = {
        "self-normalized": {"cross-entropy": losses.by_conditionals, "spread": losses.by_spread},
        "unbiased": {
            "squares": losses.by_squares, "itakura-saito": losses.by_itakura_saito,
            "score-entropy": losses.by_score_entropy,
        },
    }  # fmt: skip
    return losses.sequential(pick(config, makers[config.method])(model, target))


def divergences(model: marginal.MarginalModel) -> dict[str, losses.Divergence]:
    return {"itakura-saito": losses.itakura_saito, "score-entropy": losses.scaled(model)}


def pick(config: Config, choices: dict[str, Any]) -> Any:
    """The choice that the objective names."""
    if config.objective not in choices:
        raise ValueError(
            f"objective is {config.objective!r}: expected one of {', '.join(choices)} for the "
            f"{config.method} method on a {config.schedule} schedule"
        )
    return choices[config.objective]


def make_estimate(config: Config, target: Target, noise: UniformNoise) -> Estimate:
    """A denoiser, or a log-score where scores are compared."""
    part, wants_score = config.estimator, config.objective == "score-entropy"
    if part.name == "warm":
        estimate = call(estimates.warm, part, target, noise)
    elif part.name == "naive" and wants_score:
        return call(estimates.from_noise, part, identity.naive_log_score, target, noise)
    else:
        names = ("naive", "shared", "marginalised", "coloured", "taylor", "annealed")
        function = named(part, {name: getattr(identity, name) for name in names})
        estimate = call(estimates.from_noise, part, function, target, noise)
    return estimates.as_score(noise, estimate) if wants_score else estimate


def make_marginal_estimate(
    config: Config, target: Target, model: marginal.MarginalModel
) -> Estimate:
    """log p̂_t, (b,)."""
    names = ("log_marginal", "log_marginal_coloured", "log_marginal_annealed")
    return make_from_noise(config, target, model.noise, names)


def make_joint_estimate(
    config: Config, target: Target, model: marginal.MarginalModel, buffer: Buffer | None
) -> Estimate:
    """log p̂(x_t, x_0^i = u), (b, d, v); guided walkers start at the buffer in the noise, if that is
    a population of the target."""
    noise = model.noise
    if config.estimator.name != "joint_guided":
        names = ("joint_coloured", "joint_annealed", "joint_guided")
        return make_from_noise(config, target, noise, names)
    guided = call(estimates.guided, config.estimator, model, target)
    annealed = config.proposal.name == "population_annealing"
    if not annealed or buffer is None or model.crowd is None:
        return guided
    num_chains: Any = config.estimator.settings["num_chains"]
    from_buffer = estimates.from_buffer(target, noise, buffer, model.crowd, num_chains)
    return estimates.by_noise(noise, guided, from_buffer)


def make_from_noise(
    config: Config, target: Target, noise: UniformNoise, names: tuple[str, ...]
) -> Estimate:
    function = named(config.estimator, {name: getattr(identity, name) for name in names})
    return call(estimates.from_noise, config.estimator, function, target, noise)


# -- proposals ------------------------------------------------------------------------------------


def make_proposal(config: Config, target: Target) -> Proposal:
    names = ("uniform", "model_and_noise", "mcmc", "population_annealing")
    maker = named(config.proposal, {name: getattr(proposals, name) for name in names})
    return call(maker, config.proposal, target)


def named(part: Part, choices: dict[str, Any]) -> Any:
    if part.name not in choices:
        raise ValueError(f"name is {part.name!r}: expected one of {', '.join(choices)}")
    return choices[part.name]


def call(function: Callable[..., Any], part: Part, *arguments: Any) -> Any:
    """The function with the part's settings, or a sentence on the setting it does not have."""
    try:
        return function(*arguments, **part.settings)
    except TypeError as error:
        raise ValueError(f"settings of {part.name} are wrong: {error}") from None
