"""Tests run side by side on the cores, so each keeps to one thread."""

import torch

torch.set_num_threads(1)
