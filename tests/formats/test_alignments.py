"""Alignments are read as they are meant, and pseudo-likelihood finds the model that made them."""

from pathlib import Path

import pytest
import torch

from tcsis import formats
from tcsis.formats.alignments import Alignment, pseudo_likelihood
from tcsis.targets import Pairwise

FIVE = "-ACGU"


def test_sequences_and_alphabets(tmp_path: Path) -> None:
    path = tmp_path / "a.fasta"
    path.write_text("; a comment\n>one of two\nac-g\nu\n\n>two\nACNGU\n")
    found = formats.read_alignment(path)
    assert found.alphabet == FIVE
    assert found.names == ("one of two", "two")
    assert found.x.tolist() == [[1, 2, 0, 3, 4], [1, 2, 0, 3, 4]]
    path.write_text(">a\nMK..l-W\n>b\nMR.cc-X\n")  # small letters and dots are insertions
    found = formats.read_alignment(path)
    assert len(found.alphabet) == 21
    assert ["".join(found.alphabet[v] for v in row) for row in found.x.tolist()] == ["MK-W", "MR--"]


def test_near_copies_share_their_weight() -> None:
    x = torch.zeros(4, 10, dtype=torch.long)
    x[1, :2] = 1  # agrees with the first at 80 %
    x[2, :3] = 2
    x[3] = 3
    assert Alignment(x, FIVE, ("",) * 4).weights().tolist() == [0.5, 0.5, 1.0, 1.0]


def test_columns_that_are_kept() -> None:
    x = torch.tensor([[0, 1, 2], [0, 1, 3], [4, 1, 0]])
    whole = Alignment(x, FIVE, ("a", "b", "c"))
    dense = whole.columns(whole.frequencies(identity=None)[:, 0] < 0.5)
    assert dense.x.tolist() == [[1, 2], [1, 3], [1, 0]]
    assert (dense.alphabet, dense.names) == (FIVE, ("a", "b", "c"))
    assert whole.columns(torch.tensor([2, 0])).x[0].tolist() == [2, 0]
    with pytest.raises(ValueError, match="kept names no column"):
        whole.columns(torch.zeros(3, dtype=torch.bool))


def random_potts(d: int, v: int) -> Pairwise:
    generator = torch.Generator().manual_seed(3)
    edges = torch.combinations(torch.arange(d))
    couplings = 0.5 * torch.randn(len(edges), v, v, generator=generator)
    fields = 0.5 * torch.randn(d, v, generator=generator)
    return Pairwise(edges, couplings, fields, dtype=torch.float64)


def test_pseudo_likelihood_is_that_of_the_conditionals() -> None:
    target = random_potts(4, 5)
    x = torch.randint(5, (7, 4), generator=torch.Generator().manual_seed(1))
    weights = torch.rand(7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    j = torch.zeros(4, 5, 4, 5, dtype=torch.float64)
    for (a, b), table in zip(target.edges.tolist(), target.couplings, strict=True):
        j[a, :, b], j[b, :, a] = table, table.T
    z = Alignment(x, FIVE, ("",) * 7).one_hot()
    log_p = target.log_ratios(x).log_softmax(-1).gather(-1, x[..., None]).squeeze(-1)
    expected = -(weights * log_p.sum(1)).sum()
    found = pseudo_likelihood(z, weights, j.reshape(20, 20), target.fields)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_the_model_that_made_the_sequences_is_found() -> None:
    """Every sequence with its probability for weight: the minimiser is the model itself, but for
    what fields and couplings can say alike."""
    target = random_potts(3, 5)
    x = torch.cartesian_prod(*[torch.arange(5)] * 3)
    made = formats.fit_potts(
        Alignment(x, FIVE, ("",) * len(x)), coupling_penalty=1e-8, field_penalty=1e-8,
        weights=target.log_density(x).softmax(0),
    )  # fmt: skip
    assert made.value_names == (tuple(FIVE),) * 3
    difference = zero_sum(made.couplings) - zero_sum(target.couplings)
    assert float(difference.abs().max()) < 1e-3
    assert float(zero_sum(target.couplings).abs().max()) > 0.5  # there is something to find
    gap = made.to(dtype=torch.float64).log_density(x) - target.log_density(x)
    assert float((gap - gap.mean()).abs().max()) < 1e-2


def zero_sum(couplings: torch.Tensor) -> torch.Tensor:
    """J without what fields can say: rows and columns sum to zero."""
    centred = couplings - couplings.mean(1, keepdim=True)
    return centred - centred.mean(2, keepdim=True)


def test_the_fit_is_where_the_gradient_vanishes() -> None:
    x = torch.randint(5, (60, 5), generator=torch.Generator().manual_seed(4))
    made = formats.fit_potts(Alignment(x, FIVE, ("",) * 60), coupling_penalty=0.1)
    # at the minimum of the penalised objective Σ_v h_i(v) = 0, for the loss does not see that sum
    assert float(made.fields.sum(1).abs().max()) < 1e-5
    assert float(made.couplings.sum((1, 2)).abs().max()) < 1e-5


def test_sizes_and_penalties_are_bounded() -> None:
    wide = Alignment(torch.zeros(2, 1_000, dtype=torch.long), FIVE, ("a", "b"))
    with pytest.raises(ValueError, match="has 1000 sites of 5 values: expected at most 600 sites"):
        formats.fit_potts(wide)
    narrow = Alignment(torch.zeros(2, 4, dtype=torch.long), FIVE, ("a", "b"))
    with pytest.raises(ValueError, match="identity is 2: expected a share of sites, or None"):
        formats.fit_potts(narrow, identity=2)
    with pytest.raises(ValueError, match="coupling_penalty is 0: expected a number above 0"):
        formats.fit_potts(narrow, coupling_penalty=0)
