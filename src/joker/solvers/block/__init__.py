"""The solve of one block: a trust region, and the strategies that minimise its quadratic models."""
