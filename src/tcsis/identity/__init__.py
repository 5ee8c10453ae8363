"""Monte Carlo estimates of the denoiser and of the noised density (Prop. 1 and what follows).

Everything rests on p_t(x) = E_{x_0 ~ k_t(· | x)}[p(x_0)], which needs p̄ only and holds for a time
shared by the sites, t (b,), as for one time a site, t (b, d).  The estimators of the denoiser take
``(target, noise, x_t, t, *, ..., generator)`` and return log-probabilities (b, d, v):

| estimator      | draws                              | densities a state | remark             |
|----------------|------------------------------------|-------------------|--------------------|
| `naive`        | fresh ones for every neighbour     | k·(d·(V-1) + 1)   | Eq. (5), reference |
| `shared`       | from the kernel at x_t only        | k                 | wild near t = 0    |
| `marginalised` | the same, each site summed out     | k·(1 + ratios)    | exact as t → 0     |
| `coloured`     | the same, a class summed out       | k·(1 + ratios)    | sparse targets     |
| `annealed`     | walkers led to the posterior       | k·rungs·(1+sweep) | large d, low temp. |
| `warm`         | sweeps from a posterior draw       | sweeps            | needs a buffer     |

`log_marginal`, `log_marginal_coloured` and `log_marginal_annealed` estimate log p̄_t(x_t).
`joint_coloured` and `joint_annealed`, and with a start that is given `joint_guided` and
`joint_from_population`, estimate log p̄(x_t, x_0^i = u), (b, d, v): denoiser and marginal in one,
and like the latter without bias.
"""

from tcsis.identity.colour import coloured, joint_coloured, log_marginal_coloured
from tcsis.identity.guided import joint_from_population, joint_guided
from tcsis.identity.marginal import log_marginal
from tcsis.identity.one_shot import marginalised, naive, naive_log_score, shared
from tcsis.identity.walkers import annealed, joint_annealed, log_marginal_annealed, warm

__all__ = [
    "annealed",
    "coloured",
    "joint_annealed",
    "joint_coloured",
    "joint_from_population",
    "joint_guided",
    "log_marginal",
    "log_marginal_annealed",
    "log_marginal_coloured",
    "marginalised",
    "naive",
    "naive_log_score",
    "shared",
    "warm",
]
