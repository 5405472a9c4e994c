"""Kernels of the accelerator, written in Triton. Nothing here is imported unless a tensor is on a CUDA card."""
