"""Triton kernels; imported only where Triton is there, by the functions that launch them."""
