"""GPU kernels, written in Triton. Nothing here is imported unless a tensor is on a CUDA GPU."""
