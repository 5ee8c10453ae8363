"""A target as a distribution of torch: normalised, drawn from, and honest about log Z."""

import pytest
import torch

import tcsis
from tcsis.distribution import Distribution
from tcsis.draws import Draws
from tcsis.exact import Enumeration
from tcsis.targets import Ising, SpinGlass
from tcsis.targets.base import Target

TARGET = Ising((3, 3), 0.4, field=0.2, dtype=torch.float64)
TABLE = Enumeration(TARGET)
STATES = TABLE.states(torch.arange(TABLE.num_states))


class Skewed:
    """Draws of another temperature, with weights, as a model would have them."""

    def __init__(self, target: Target = TARGET):
        self.target, self.other = target, Ising((3, 3), 0.25, field=0.1, dtype=torch.float64)

    def sample(self, n: int, *, seed: int = 0) -> Draws:
        return tcsis.exact.draw(self.other, n, seed=seed).reweighted(self.other, self.target)


def test_log_prob_sums_to_one() -> None:
    p = Distribution(TARGET)
    assert float(p.log_prob(STATES).logsumexp(0)) == pytest.approx(0, abs=1e-10)
    assert float(p.entropy()) == pytest.approx(float(torch.special.entr(TABLE.p).sum()))
    assert p.event_shape == (9,)
    assert p.batch_shape == ()
    assert p.log_z_error == 0
    assert p.normalised == "by the exact log Z, from enumeration"
    assert bool(p.support.check(STATES).all())
    assert not bool(p.support.check(STATES + 1).all())
    assert isinstance(p, torch.distributions.Distribution)


@pytest.mark.statistical
@pytest.mark.parametrize("source", [TARGET, Skewed()], ids=["exact", "model"])
def test_samples_follow_p(source: Target | Skewed) -> None:
    """Site marginals within 5 standard errors, 9 sites, 5e-6; plain draws of the model fail."""
    p = Distribution(source, seed=3)
    x = p.sample((40, 100))
    assert x.shape == (40, 100, 9)
    assert x.dtype == torch.long
    truth = TABLE.site_marginals[:, 1]
    error = (truth * (1 - truth) / 4_000).sqrt()
    assert bool(((x.double().mean((0, 1)) - truth).abs() < 5 * error).all())
    plain = Skewed().sample(4_000).x.double().mean(0)
    assert bool(((plain - truth).abs() > 5 * error).any())


def test_calls_differ_and_repeat() -> None:
    first, again = Distribution(TARGET, seed=1), Distribution(TARGET, seed=1)
    a, b = first.sample((5,)), first.sample((5,))
    assert not torch.equal(a, b)
    assert torch.equal(a, again.sample((5,)))
    assert first.sample().shape == (9,)
    assert first.sample((0,)).shape == (0, 9)


def test_an_estimated_log_z_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcsis.exact, "affordable", lambda target: False)
    p = Distribution(Skewed())
    assert p.truth is None
    assert 0 < p.log_z_error < 0.05
    assert abs(p.log_z - TABLE.log_z) < 5 * p.log_z_error
    assert "from 10,000 draws" in p.normalised
    with pytest.raises(ValueError, match="not known exactly: estimate it by the weighted mean"):
        p.entropy()


def test_a_trained_model() -> None:
    model = tcsis.train(TARGET, preset="tiny", steps=30, progress=False)
    p = model.as_distribution(seed=2)
    assert p.sample((3,)).shape == (3, 9)
    assert torch.allclose(p.log_prob(STATES).exp(), TABLE.p, atol=1e-9)


def test_what_cannot_be_a_distribution() -> None:
    with pytest.raises(ValueError, match="is too large"):
        Distribution(SpinGlass((20, 20), 0.5))
    with pytest.raises(ValueError, match="draws without weights: expected a sampler"):
        Distribution(tcsis.mcmc.ChainSampler(TARGET)).sample((2,))


def test_what_is_no_target_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^source is a int: expected a target"):
        tcsis.Distribution(3)
