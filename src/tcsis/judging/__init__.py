"""Draws against the truth: metrics, evaluation, weights, and the verdict on all of it."""
