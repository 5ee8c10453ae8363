"""Black boxes that are pairwise are recognised, and no answer depends on it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tcsis.exact import Enumeration
from tcsis.learn.autoregressive import Autoregressive
from tcsis.learn.models.last import last_law
from tcsis.targets import Pairwise, Target, from_callable, recognition
from tcsis.targets import callable as callable_targets

DOUBLE = {"dtype": torch.float64}
Density = Callable[[Tensor], Tensor]


def all_states(target: Target) -> Tensor:
    table = Enumeration(target)
    return table.states(torch.arange(table.num_states))


def random_pairwise(
    d: int, v: int, dtype: torch.dtype = torch.float64, forbidden: float = 0.0, seed: int = 0
) -> Density:
    """Tables and fields of order one on half of all pairs, in ``dtype``; this share of the entries
    of the pairs is -inf, but for those of value 0, around which all is allowed."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(d))
    pairs = pairs[torch.rand(len(pairs), generator=generator) < 0.5]
    tables = torch.randn(len(pairs), v, v, generator=generator, **DOUBLE)
    hard = torch.rand(tables.shape, generator=generator) < forbidden
    hard[:, 0], hard[:, :, 0] = False, False
    tables[hard] = -torch.inf
    fields = torch.randn(d, v, generator=generator, **DOUBLE)
    rows, sites = torch.arange(len(pairs)), torch.arange(d)

    def log_density(x: Tensor) -> Tensor:
        coupled = tables[rows, x[:, pairs[:, 0]], x[:, pairs[:, 1]]].to(dtype)
        return coupled.sum(1) + fields[sites, x].to(dtype).sum(1) + 3

    return log_density


@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("d", "v"), [(8, 2), (6, 3), (2, 4), (1, 3)])
def test_pairwise_functions_are_recognised(
    d: int, v: int, dtype: torch.dtype, forbidden: float
) -> None:
    """And equal at every state, where -inf has become as good as impossible."""
    for seed in range(3):
        target = from_callable(random_pairwise(d, v, dtype, forbidden, seed), d, v)
        sketch = target.sketch
        assert isinstance(sketch, Pairwise)
        x = all_states(target)
        truth, said = target.log_density(x), sketch.log_density(x)
        allowed = truth.isfinite()
        assert forbidden == 0 or d < 6 or not allowed.all()
        tolerance = 1e-11 if dtype == torch.float64 else 1e-4
        torch.testing.assert_close(said[allowed], truth[allowed], rtol=0, atol=tolerance)
        assert (said[~allowed] < truth[allowed].max() - 30).all()


def test_only_sites_that_interact_are_joined() -> None:
    target = from_callable(lambda x: (x[:, 0] * x[:, 2] - x[:, 1]).double(), 4, 3)
    assert isinstance(target.sketch, Pairwise)
    assert target.sketch.edges.tolist() == [[0, 2]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("field", [0.0, 0.01])
@pytest.mark.parametrize("v", [2, 3])
def test_the_symmetry_of_the_values_shows(v: int, field: float, dtype: torch.dtype) -> None:
    """On a ring of eight where like values attract; a weak field at one site breaks it."""

    def log_density(x: Tensor) -> Tensor:
        alike = (x == x.roll(1, 1)).to(dtype).sum(1)
        return 0.7 * alike + field * (x[:, 3] == 1).to(dtype) - 2

    target = from_callable(log_density, 8, v)
    sketch = target.sketch
    assert isinstance(sketch, Pairwise)
    assert len(sketch.edges) == 8
    assert sketch.symmetries.value_permutation == (field == 0)
    x = all_states(target)
    gap = sketch.log_density(x) - target.log_density(x)
    assert float(gap.abs().max()) < (1e-11 if dtype == torch.float64 else 1e-4)


def with_three(d: int, v: int, strength: float) -> Density:
    pairwise = random_pairwise(d, v)
    return lambda x: pairwise(x) + strength * (x[:, :3] == 1).all(1)


def hot(k: int) -> Density:
    return lambda x: torch.where(x.sum(1) == k, 0.0, -torch.inf)


def neural(x: Tensor) -> Tensor:
    weights = torch.randn(2, 10, 10, generator=torch.Generator().manual_seed(0))
    return torch.tanh(torch.tanh((2 * x - 1).float() @ weights[0]) @ weights[1]).sum(1)


def pinned(x: Tensor) -> Tensor:
    """A field of -inf, so that every allowed state has a forbidden neighbour."""
    return torch.where(x[:, 3] == 1, x[:, 0] * 0.3, -torch.inf)


OTHERS: dict[str, tuple[Density, int, int]] = {
    "three sites": (with_three(10, 2, 0.1), 10, 2),
    "three sites of 24": (with_three(24, 2, 0.1), 24, 2),
    "three sites, three values": (with_three(8, 3, 0.1), 8, 3),
    "k-hot": (hot(3), 10, 2),
    "parity": (lambda x: torch.where(x.sum(1) % 2 == 0, 0.0, -torch.inf), 10, 2),
    "soft parity": (lambda x: 0.2 * (x.sum(1) % 2).double(), 10, 2),
    "neural": (neural, 10, 2),
    "field of -inf": (pinned, 10, 2),
    "all forbidden": (lambda x: torch.full((len(x),), -torch.inf), 10, 2),
    "triangles": (lambda x: torch.where((x[:, :3] == 1).all(1), -torch.inf, 0.0), 10, 2),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_are_not_recognised(name: str) -> None:
    target = from_callable(*OTHERS[name])
    assert target.sketch is target


def test_forbidden_and_very_unlikely_are_told_apart() -> None:
    """A coupling below what stands for -inf is none of the tables that could be found."""
    target = from_callable(lambda x: -100.0 * x[:, 0] * x[:, 1], 4, 2)
    assert target.sketch is target


@pytest.mark.parametrize(
    ("d", "v", "tried"),
    [(4, 2, True), (60, 2, True), (128, 2, False), (6, 19, True), (9, 20, False)],
)
@pytest.mark.parametrize("allowed", [True, False])
def test_probes_are_few(
    d: int, v: int, tried: bool, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large the target is and whatever it forbids; too large ones are not tried at all.
    The 8,128 pairs of 128 sites would do, but not with all else."""
    monkeypatch.setattr(recognition, "MOST_PROBES", 2**13)
    calls = 0

    def log_density(x: Tensor) -> Tensor:
        nonlocal calls
        calls += len(x)
        return torch.zeros(len(x)) if allowed else torch.full((len(x),), -torch.inf)

    target = from_callable(log_density, d, v)
    calls = 0
    recognised = target.sketch is not target
    assert calls <= recognition.MOST_PROBES
    assert (calls > 0) == tried
    assert recognised == (tried and allowed)


# -- answers ---------------------------------------------------------------------------------------


def wrong_sketch(target: Target, precision: torch.dtype) -> Pairwise:
    """A pairwise target on a square, which the function is far from."""
    generator = torch.Generator().manual_seed(1)
    edges = [[0, 1], [1, 2], [2, 3], [3, 0], [3, 4], [4, 5]]
    tables = torch.randn(len(edges), 2, 2, generator=generator, **DOUBLE)
    tables[0, 1, 1] = recognition.FORBIDDEN
    return Pairwise(edges, tables, torch.randn(6, 2, generator=generator, **DOUBLE), **DOUBLE)


@pytest.mark.parametrize("trained", [False, True])
def test_weights_are_right_on_a_wrong_sketch(
    trained: bool, awake: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Σ_x q(x)·w(x) = Z with q from ``log_prob`` and the last class, for a black box that is
    taken for what it is not; -inf at some states."""
    monkeypatch.setattr(callable_targets, "recognise", wrong_sketch)

    def log_density(x: Tensor) -> Tensor:
        cubic = 1.5 * (x[:, 0] * x[:, 1] * x[:, 2]) - 0.7 * x.sum(1)
        return torch.where(x.sum(1) == 2, -torch.inf, cubic.double())

    target = from_callable(log_density, 6, 2)
    assert isinstance(target.sketch, Pairwise)
    model = Autoregressive(width=4).model(target).double()
    assert model.last is not None
    if trained:
        model = awake(model)
    table, x = Enumeration(target), all_states(target)
    log_w = model.log_weight(target, x)
    last = last_law(target, x, model.last).gather(-1, x[:, model.last, None]).sum((1, 2))
    log_q = (model.log_prob(x).sum(1) + last).detach()
    assert float(log_q.logsumexp(0)) == pytest.approx(0, abs=1e-12)
    assert float((log_q + log_w).logsumexp(0)) == pytest.approx(table.log_z, abs=1e-12)
    draws = model.sample(target, 500, torch.Generator().manual_seed(0))
    index = (draws.x.long() * 2 ** torch.arange(5, -1, -1)).sum(1)
    assert torch.equal(x[index], draws.x.long())
    torch.testing.assert_close(draws.log_weight, log_w[index], rtol=0, atol=1e-10)


def test_a_target_keeps_its_density_when_it_is_recognised() -> None:
    """Only the sketch is finite where the function forbids."""
    target = from_callable(random_pairwise(6, 2, forbidden=0.5), 6, 2)
    x = all_states(target)
    before = target.log_density(x)
    assert isinstance(target.sketch, Pairwise)
    assert torch.equal(target.log_density(x), before)
    assert before.isneginf().any()
