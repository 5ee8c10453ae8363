"""Aligned sequences, and the Potts model that pseudo-likelihood fits to them.

With weights w_b of the sequences, B = Σ w_b, and the conditionals of a pairwise model,

    minimise  -1/B Σ_b w_b Σ_i log p(x_i | x without i) + λ_h ‖h‖² + λ_J Σ_{i<j} ‖J_ij‖²,

which is convex.  w_b is 1 over the number of sequences, itself among them, that agree with b at
80 % of the sites or more, so that a crowd of near copies counts as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tcsis.formats.dca import ALPHABETS, AMINO_ACIDS
from tcsis.formats.text import MAX_ENTRIES, Place, read_text, shown
from tcsis.targets.pairwise import Pairwise

UNKNOWN = {AMINO_ACIDS: set("XBZJOU"), "-ACGU": set("N"), "-ACGT": set("N")}
"""Letters for what was not told apart; they are read as gaps."""
MAX_WIDTH = 3_000
"""Of sites times values: its square is the number of couplings to fit."""
MAX_SEQUENCES = 2**15
"""Each of which is compared with all others."""
CHUNK = 1_024


@dataclass(frozen=True)
class Alignment:
    """Tokens ``x`` (n, d) of sequences, each a place in the ``alphabet``, and their names."""

    x: Tensor
    alphabet: str
    names: tuple[str, ...]

    def one_hot(self) -> Tensor:
        """(n, d·v) in float64."""
        return one_hot(self.x, len(self.alphabet)).double().flatten(1)

    def weights(self, identity: float | None = 0.8) -> Tensor:
        """1 over the number of sequences that agree at that share of the sites or more, (n,); all
        alike where that is None."""
        if identity is None:
            return torch.ones(len(self.x), dtype=torch.float64)
        if not 0 < identity <= 1:
            raise ValueError(f"identity is {identity!r}: expected a share of sites, or None")
        if len(self.x) > MAX_SEQUENCES:
            raise ValueError(
                f"there are {len(self.x)} sequences to compare with each other: expected at most "
                f"{MAX_SEQUENCES}; take some of them, or identity=None"
            )
        whole, d = self.one_hot().float(), self.x.shape[1]
        close = [(rows @ whole.T >= identity * d - 1e-3).sum(1) for rows in whole.split(CHUNK)]
        return 1 / torch.cat(close).double()

    def frequencies(self, identity: float | None = 0.8) -> Tensor:
        """Weighted frequencies of the values at every site, (d, v)."""
        weights = self.weights(identity)
        mean = weights @ self.one_hot() / weights.sum()
        return mean.reshape(self.x.shape[1], -1)

    def columns(self, kept: Tensor) -> Alignment:
        """Some of the columns alone: their numbers, or a mask (d,), such as
        ``frequencies()[:, 0] < 0.3``, which leaves out those with many gaps."""
        x = self.x[:, kept]
        if x.ndim != 2 or not x.shape[1]:
            raise ValueError("kept names no column: expected numbers or a mask of one or more")
        return replace(self, x=x)


def read_fasta(
    path: str | Path,
    *,
    coupling_penalty: float = 0.01,
    field_penalty: float = 0.01,
    identity: float | None = 0.8,
    steps: int = 200,
) -> Pairwise:
    """The Potts model of an alignment in a FASTA file; see ``fit_potts``."""
    return fit_potts(
        read_alignment(path), coupling_penalty=coupling_penalty, field_penalty=field_penalty,
        identity=identity, steps=steps,
    )  # fmt: skip


def read_alignment(path: str | Path) -> Alignment:
    """Sequences of one length.  In a file with dots, those and small letters are insertions, which
    are left out; elsewhere small letters are as good as capitals."""
    place = Place(Path(path))
    records: list[tuple[Place, str, list[str]]] = []
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.strip()
        if line.startswith(">"):
            records.append((Place(place.path, number), line[1:].strip(), []))
        elif line and not line.startswith(";"):
            if not records:
                raise Place(place.path, number).refuse(
                    f"the line is {shown(line)}", "a name after > first"
                )
            records[-1][2].append(line)
    if not records:
        raise place.refuse("there are no sequences", "names after > and sequences under them")
    inserted = any("." in part for *_, parts in records for part in parts)
    rows = [(where, name, clean("".join(parts), inserted)) for where, name, parts in records]
    return encode(rows)


def clean(sequence: str, inserted: bool) -> str:
    if inserted:
        return "".join(letter for letter in sequence if letter.isupper() or letter in "-*")
    return sequence.replace(" ", "").upper()


def encode(rows: list[tuple[Place, str, str]]) -> Alignment:
    """Letters as places in the first alphabet that has them all."""
    length = len(rows[0][2])
    for place, name, sequence in rows:
        if len(sequence) != length or not length:
            raise place.refuse(
                f"{shown(name)} has {len(sequence)} letters",
                f"{length or 'some'}, as the first sequence has: they must be aligned",
            )
    found = set().union(*(sequence for *_, sequence in rows))
    alphabet = next((one for one in ALPHABETS if found <= set(one) | UNKNOWN[one]), None)
    if alphabet is None:
        strange = found - set(AMINO_ACIDS) - UNKNOWN[AMINO_ACIDS]
        for place, name, sequence in rows:
            if strange & set(sequence):
                letter = next(letter for letter in sequence if letter in strange)
                raise place.refuse(f"{shown(name)} has {letter!r}", f"letters of {AMINO_ACIDS}")
        raise rows[0][0].refuse("letters are of several alphabets", f"those of {AMINO_ACIDS}")
    if len(rows) * length > MAX_ENTRIES:
        raise rows[0][0].refuse(
            f"{len(rows)} sequences of {length} letters are too many", f"{MAX_ENTRIES:,} letters"
        )
    code = {letter: max(0, alphabet.find(letter)) for letter in found}
    x = torch.tensor([[code[letter] for letter in sequence] for *_, sequence in rows])
    return Alignment(x, alphabet, tuple(name for _, name, _ in rows))


def fit_potts(
    alignment: Alignment,
    *,
    coupling_penalty: float = 0.01,
    field_penalty: float = 0.01,
    identity: float | None = 0.8,
    weights: Tensor | None = None,
    steps: int = 200,
) -> Pairwise:
    """The minimiser that the head of this module names, by L-BFGS from zero: λ_J and λ_h are the
    penalties.  ``weights`` (n,) of the sequences stand in for those by ``identity``.  Values are
    named by the letters of the alphabet."""
    d, v = alignment.x.shape[1], len(alignment.alphabet)
    if d * v > MAX_WIDTH:
        raise ValueError(
            f"the alignment has {d} sites of {v} values: expected at most {MAX_WIDTH // v} sites; "
            "leave out columns of gaps, with alignment.columns"
        )
    for name, penalty in (("coupling_penalty", coupling_penalty), ("field_penalty", field_penalty)):
        if not penalty > 0:
            raise ValueError(f"{name} is {penalty!r}: expected a number above 0")
    z = alignment.one_hot()
    told = alignment.weights(identity) if weights is None else weights.double()
    shares = told / told.sum()
    apart = 1 - torch.kron(torch.eye(d), torch.ones(v, v)).double()  # no site with itself
    half = torch.zeros(d * v, d * v, dtype=torch.float64, requires_grad=True)
    fields = torch.zeros(d, v, dtype=torch.float64, requires_grad=True)

    def objective() -> Tensor:
        j = couplings(half, apart)
        loss = pseudo_likelihood(z, shares, j, fields)
        penalty = coupling_penalty * j.square().sum() / 2 + field_penalty * fields.square().sum()
        return loss + penalty

    minimise(objective, [half, fields], steps)
    tables = couplings(half, apart).detach().reshape(d, v, d, v).permute(0, 2, 1, 3)
    edges = torch.combinations(torch.arange(d))
    made = Pairwise(edges, tables[edges[:, 0], edges[:, 1]], fields.detach())
    return made.named(value_names=tuple(alignment.alphabet))


def couplings(half: Tensor, apart: Tensor) -> Tensor:
    """J (d·v, d·v), symmetric, without terms of a site with itself."""
    return (half + half.T) * apart


def pseudo_likelihood(z: Tensor, weights: Tensor, j: Tensor, fields: Tensor) -> Tensor:
    """-Σ_b w_b Σ_i log p(x_i | x without i) from one-hot sequences z (n, d·v)."""
    total = z.new_zeros(())
    for rows, share in zip(z.split(CHUNK), weights.split(CHUNK), strict=True):
        logits = (rows @ j).reshape(len(rows), *fields.shape) + fields
        present = (logits.log_softmax(-1) * rows.reshape_as(logits)).sum((1, 2))
        total = total - (share * present).sum()
    return total


def minimise(objective: Callable[[], Tensor], parameters: list[Tensor], steps: int) -> None:
    """L-BFGS with a line search, until the gradient is small or steps are used up."""
    optimiser = torch.optim.LBFGS(
        parameters, max_iter=steps, history_size=5, tolerance_grad=1e-7, tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = objective()
        loss.backward()
        return loss

    optimiser.step(closure)
