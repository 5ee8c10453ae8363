"""Tests run side by side on the cores, so each keeps to one thread."""

import numba
import torch

torch.set_num_threads(1)
numba.set_num_threads(1)
