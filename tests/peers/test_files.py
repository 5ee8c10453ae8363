"""Every peer is read again for a function of the user's own."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tcsis.peers import dnfs, leaps, mdns, sdds, van
from tcsis.targets import from_callable

PEERS: dict[str, tuple[ModuleType, Any]] = {
    "dnfs": (
        dnfs,
        dnfs.DnfsConfig(width=8, heads=2, depth=1, num_paths=8, states_a_time=8, num_times=4),
    ),
    "leaps": (leaps, leaps.LeapsConfig(num_walkers=16, num_calls=3)),
    "mdns": (mdns, mdns.MdnsConfig(width=4)),
    "sdds": (sdds, sdds.SddsConfig(chain_length=3, num_paths=8)),
    "van": (van, van.VanConfig(width=2)),
}


def wave(x: Tensor) -> Tensor:
    """A density that no pairs make up, (n, d) -> (n,)."""
    return torch.sin((x * torch.arange(1, x.shape[-1] + 1)).sum(-1).double() ** 2)


@pytest.mark.parametrize("name", PEERS)
def test_a_model_of_a_function_is_read_with_the_function(name: str, tmp_path: Path) -> None:
    """The same draws and weights; with another function weights are others, and without any, or
    with one of another size, nothing is read."""
    peer, config = PEERS[name]
    config = config.model_copy(update={"num_evaluations": 0})
    target = from_callable(wave, 4, num_values=2)
    assert target.opaque
    model = peer.train(target, config=config, steps=2, progress=False)
    model.save(tmp_path)
    draws = model.sample(30, seed=1)
    again = peer.load(tmp_path, target=target)
    assert again.config == config.model_copy(update={"num_steps": 2})
    assert torch.equal(again.sample(30, seed=1).x, draws.x)
    assert torch.equal(again.sample(30, seed=1).log_weight, draws.log_weight)
    other = from_callable(lambda x: 2 * wave(x), 4, num_values=2)
    wrong = peer.load(tmp_path, target=other).sample(30, seed=1)
    assert (wrong.log_weight - draws.log_weight).abs().max() > 0.1
    with pytest.raises(ValueError, match="was saved without the function itself"):
        peer.load(tmp_path)
    with pytest.raises(ValueError, match="num_sites = 5"):
        peer.load(tmp_path, target=from_callable(wave, 5, num_values=2))
