"""The solve of one block: a trust region, and the strategies that search inside it."""
