"""The peak of torch's allocations, measured."""

from collections.abc import Callable

from torch.autograd.profiler import profile

ROUNDING = 64  # bytes: numbers that torch wraps as tensors


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most bytes that ``work`` holds at once on the CPU, beyond what was there before."""
    with profile(profile_memory=True) as record:
        result = work()
    events = [event for event in record.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    del result  # until here: the result is part of the peak
    return peak
