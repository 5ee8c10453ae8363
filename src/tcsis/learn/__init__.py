"""Samplers that are trained: methods, models, networks, buffers, and the loop that trains them."""
