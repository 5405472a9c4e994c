"""Steps on a GPU: replayed steps against single ones, mixed precision, rows in host memory, and lack of memory."""

import gc
import weakref

import pytest
import torch
from torch import Tensor

from joker.data import HostRows
from joker.errors import BudgetTooSmall, CaptureFailed
from joker.features import FeatureMap
from joker.prepare import prepare
from joker.runtime import OutOfMemory
from joker.runtime.cuda_graphs import Replay, Upload
from joker.solvers import Descent, FeatureState, Settings
from joker.solvers.feature_state import Chunking

LOSSES = ("squared", "huber", "absolute", "epsilon_insensitive", "quantile", "lp", "hinge", "squared_hinge", "logistic")


def rows(n: int = 1_003, d: int = 5) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(n, d, generator=draw)
    return x, x[:, 0] * x[:, 1] + x[:, 2].sin() + 0.1 * torch.randn(n, generator=draw)


def descent(
    loss: str, place: str, m: int | None = 300, x: object = None, mixed: bool = False, **settings: object
) -> Descent:
    inputs, y = rows()
    y = torch.where(y > 0, 1.0, -1.0) if loss in ("hinge", "squared_hinge", "logistic") else y
    chosen = Settings(block_size=130, tol=0.0, **settings)
    x = inputs.to(place) if x is None else x
    return prepare(x, y.to(place), loss=loss, lam=[0.1, 1.0], n_features=m, mixed=mixed, settings=chosen).descent


@pytest.mark.gpu
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("m", [300, None])
@pytest.mark.parametrize("momentum", [False, True])
def test_a_gpu_descends_as_the_cpu_does(loss: str, m: int | None, momentum: bool) -> None:
    """Blocks of different lengths, two columns: both gaps fall, to about the same value."""
    gpu, cpu = (descent(loss, place, m, max_epochs=6, momentum=momentum).run() for place in ("cuda", "cpu"))
    torch.testing.assert_close(gpu.gap.dual.cpu(), cpu.gap.dual, rtol=2e-2, atol=1e-3)
    assert gpu.relative_gap < 2 * cpu.relative_gap + 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_replayed_step_is_the_step(loss: str) -> None:
    replayed, single = descent(loss, "cuda"), descent(loss, "cuda")
    single.method.schedule.replay = None
    for _ in range(20):
        replayed.step()
        single.step()
    assert replayed.method.schedule.replay is not None
    assert replayed.method.schedule.replay.capturing
    assert (
        sum(graph is not None for graph in replayed.method.schedule.replay.graphs.values()) >= 2
    )  # two lengths of blocks
    torch.testing.assert_close(replayed.state.alpha, single.state.alpha, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(replayed.state.image, single.state.image, rtol=1e-4, atol=1e-5)
    assert replayed.method.statistics.outcomes == single.method.statistics.outcomes


@pytest.mark.gpu
@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "hinge"])
def test_mixed_precision_does_not_move_the_solution(loss: str) -> None:
    mixed, plain = (descent(loss, "cuda", 8_192, mixed=low, max_epochs=30) for low in (True, False))
    assert mixed.state.rounded_K
    of_mixed, of_plain = mixed.run(), plain.run()
    torch.testing.assert_close(of_mixed.gap.dual, of_plain.gap.dual, rtol=5e-4, atol=0)  # a fiftieth of the gap
    assert of_mixed.relative_gap < 1.2 * of_plain.relative_gap + 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_rows_in_host_memory_give_the_same_as_rows_on_the_gpu(kind: torch.dtype) -> None:
    x = rows()[0].to(kind)
    streamed = descent("squared_hinge", "cuda", x=HostRows(x, Upload(torch.device("cuda"))), max_epochs=2).run()
    kept = descent("squared_hinge", "cuda", x=x.float().cuda(), max_epochs=2).run()
    assert torch.equal(streamed.alpha, kept.alpha)


def test_rows_in_host_memory_are_returned_in_the_requested_type() -> None:
    x = torch.arange(12, dtype=torch.uint8).view(4, 3)
    kept = HostRows(x, Upload(torch.device("cpu")), torch.float64)
    assert kept.shape == (4, 3)
    assert torch.equal(kept[torch.tensor([2, 0])], x[[2, 0]].double())
    assert torch.equal(kept[1:3], x[1:3].double())
    assert kept[1:3].dtype == kept.dtype == torch.float64


class Cramped:
    """A map that runs out of memory when it computes more than ``most`` features at once."""

    def __init__(self, features: FeatureMap, most: int) -> None:
        self.features, self.most = features, most

    @property
    def n_features(self) -> int:
        return self.features.n_features

    def __call__(self, x: Tensor) -> Tensor:
        if self.n_features > self.most:
            raise OutOfMemory("no memory")
        return self.features(x)

    def fill(self, x: Tensor, out: Tensor) -> Tensor:
        return out.copy_(self(x))

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return self.features(x) @ theta

    def work_bytes(self, b: int) -> int:
        return self.features.work_bytes(b)

    def slice(self, start: int, stop: int) -> "Cramped":
        return Cramped(self.features.slice(start, stop), self.most)


def cramp(most: int) -> Descent:
    solve = descent("squared", "cpu", 1_024, max_epochs=1)
    state = solve.state
    assert isinstance(state, FeatureState)
    state.features = Cramped(state.features, most)
    state.use(Chunking(1_024))
    return solve


def test_a_fit_that_runs_out_of_memory_continues_with_smaller_chunks() -> None:
    cramped, roomy = cramp(300), descent("squared", "cpu", 1_024, max_epochs=1)
    for _ in range(roomy.method.blocks.count):
        cramped.step()
        roomy.step()
    assert [chunk.features.n_features for chunk in cramped.state.chunks] == [256] * 4
    torch.testing.assert_close(cramped.state.image, roomy.state.image, rtol=1e-3, atol=1e-4)


def test_a_device_without_memory_for_a_block_says_what_is_missing() -> None:
    with pytest.raises(BudgetTooSmall, match="are missing"):
        cramp(100).step()


def test_with_a_small_budget_features_are_computed_in_chunks() -> None:
    x, y = rows()
    whole, chunked = (
        prepare(
            x, y, loss="huber", n_features=2_048, memory=memory, settings=Settings(block_size=130, max_epochs=1)
        ).descent
        for memory in ("1GB", "400kB")
    )
    assert len(whole.state.chunks) == 1 < len(chunked.state.chunks)
    torch.testing.assert_close(chunked.run().alpha, whole.run().alpha, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "gaussian", "polynomial"])
def test_chunks_do_not_change_the_rows_of_a_block(kernel: str) -> None:
    x = torch.randn(64, 600, generator=torch.Generator().manual_seed(0))
    state = prepare(
        x, x[:, 0], kernel=kernel, n_features=600, bandwidth=30.0, settings=Settings(block_size=64)
    ).descent.state
    assert isinstance(state, FeatureState)
    state.image.normal_(generator=torch.Generator().manual_seed(1))
    whole, inputs, move = state.open(torch.arange(64)), x.clone(), torch.ones(64, 1)
    change = state.image_change(whole, move)
    state.use(Chunking(256))
    chunked = state.open(torch.arange(64), inputs)
    torch.testing.assert_close(state.image_change(chunked, move), change, rtol=1e-4, atol=1e-4)
    assert torch.equal(inputs, x)
    torch.testing.assert_close(chunked.K, whole.K, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(chunked.f, whole.f, rtol=1e-4, atol=1e-3)


def test_bfloat16_slices_give_the_same_gram_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    def low_gram(low: Tensor, b: int) -> Tensor:
        return (low.float() @ low.float().T)[:b, :b]  # the CPU has no such matrix product

    monkeypatch.setattr("joker.solvers.feature_state.low_gram", low_gram)
    x, y = rows()
    state = prepare(x, y, n_features=2_048, intercept=True, settings=Settings(block_size=130)).descent.state
    assert isinstance(state, FeatureState)
    state.rounded_K = True
    state.use(Chunking(2_049))
    chosen = torch.arange(0, 260, 2)
    whole, before = state.open(chosen), state.scratch_bytes
    while state.chunking.size == 2_049 and state.shrink() and state.chunking.size == 2_049:
        assert len(state.chunks[0].slices) > 1
        assert state.scratch_bytes < before
        sliced, before = state.open(chosen), state.scratch_bytes
        torch.testing.assert_close(sliced.K, whole.K, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(sliced.basis, whole.basis)
    assert state.chunking.size < 2_049  # chunks get smaller when the slices are small


def test_a_step_that_cannot_be_captured_runs_without_a_graph_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu(torch.Tensor):
        is_cuda = True

    def refuse(*_: object) -> None:
        raise RuntimeError("operation not permitted")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", refuse)
    calls: list[int] = []
    replay, inputs = Replay(), torch.ones(3).as_subclass(OnGpu)

    def function(x: Tensor) -> None:
        calls.append(len(x))

    replay(function, inputs)
    with pytest.warns(CaptureFailed, match="operation not permitted"):
        replay(function, inputs)
    replay(function, inputs)
    assert calls == [3, 3, 3]


def test_a_descent_is_freed_with_its_last_reference() -> None:
    """The GPU memory of rows and features must not wait for the garbage collector of cycles."""
    solve = descent("squared", "cpu", max_epochs=1)
    solve.run()
    seen = weakref.ref(solve)
    gc.disable()
    try:
        del solve
        assert seen() is None
    finally:
        gc.enable()
