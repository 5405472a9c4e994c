"""The search on scores from a formula: the candidates that it tries and keeps, and the trial that it returns."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from joker.tuning.halving import FIRST_BANDWIDTHS, FIRST_LAMBDAS, Candidate, Family, Search, Trial, stage_rows

Formula = Callable[[str, float, float, int], float]  # kernel, bandwidth, λ, rows


Run = Callable[[int, int, Candidate], list[Trial]]
Runs = Callable[[int, int, Sequence[Candidate]], list[list[Trial]]]


def each(run: Run, out_of_time: Callable[[], bool] = lambda: False) -> Runs:
    """Return a run of several candidates, as far as time allows, from that of one."""

    def run_each(stage: int, rows: int, candidates: Sequence[Candidate]) -> list[list[Trial]]:
        found: list[list[Trial]] = []
        for candidate in candidates:
            if found and out_of_time():
                break
            found.append(run(stage, rows, candidate))
        return found

    return run_each


def running(formula: Formula) -> Runs:
    return each(scored_by(formula))


def scored_by(formula: Formula) -> Run:
    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        kernel, sigma = str(candidate.family.kernel), candidate.bandwidth
        scores = [formula(kernel, sigma, lam, rows) for lam in candidate.lam]
        found = zip(candidate.lam, scores, strict=True)
        return [Trial(stage, rows, candidate, lam, 20 - score, score, 0.0) for lam, score in found]

    return run


def hill(sigma: float, lam: float, kernel: str = "a") -> Formula:
    """A score with one maximum, flatter in λ than in the bandwidth."""
    return lambda k, s, penalty, rows: (
        -abs(math.log2(s / sigma)) - 0.5 * abs(math.log10(penalty / lam)) - 0.3 * (k != kernel)
    )


@pytest.mark.parametrize("exponent", [-6, -4, -2.5, -1, 0, 2, 4])
@pytest.mark.parametrize("lam", [30.0, 1.0, 0.001])
def test_the_maximum_is_found_within_the_last_steps(exponent: float, lam: float) -> None:
    """Also far from the first bandwidths and the first λ."""
    families = [Family("a", FIRST_BANDWIDTHS), Family("b", FIRST_BANDWIDTHS)]
    best = Search(running(hill(2.0**exponent, lam))).best(families, [1000, 4000, 16000])
    assert best.candidate.family.kernel == "a"
    assert abs(math.log2(best.candidate.bandwidth) - exponent) <= 0.25
    assert abs(math.log10(best.lam / lam)) <= 0.5


@pytest.mark.parametrize("limit", ["time", "candidates"])
def test_few_candidates_compare_all_kernels(limit: str) -> None:
    """A second bandwidth is tried after the first one of every kernel."""
    tried: list[str] = []
    run = scored_by(hill(0.5, 1.0, "c"))

    def counting(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        tried.append(str(candidate.family.kernel))
        return run(stage, rows, candidate)

    families = [Family(name, FIRST_BANDWIDTHS) for name in ("a", "b", "c")]

    def out_of_time() -> bool:
        return limit == "time" and len(tried) >= 3

    count = 3 if limit == "candidates" else math.inf
    search = Search(each(counting, out_of_time), max_candidates=count, out_of_time=out_of_time)
    best = search.best(families, [1000])
    assert tried == ["a", "b", "c"]
    assert best.candidate.family.kernel == "c"


def test_a_kernel_that_gains_with_the_rows_wins() -> None:
    """The second best kernel of the first stage is tried again."""

    def score(kernel: str, sigma: float, lam: float, rows: int) -> float:
        bonus = {"early": 0.1, "late": 0.2 if rows > 2000 else 0.0, "never": -0.1}[kernel]
        return bonus - abs(math.log2(sigma / 0.5))

    families = [Family(name, FIRST_BANDWIDTHS) for name in ("never", "early", "late")]
    best = Search(running(score)).best(families, [1000, 4000])
    assert best.candidate.family.kernel == "late"
    assert best.rows == 4000


def test_a_bandwidth_that_shrinks_with_the_rows_is_followed() -> None:
    def score(kernel: str, sigma: float, lam: float, rows: int) -> float:
        return -abs(math.log2(sigma * rows / 1000))

    best = Search(running(score)).best([Family("a", FIRST_BANDWIDTHS)], [1000, 4000, 16000])
    assert best.candidate.bandwidth == pytest.approx(1 / 16)


def test_a_bad_bandwidth_does_not_hide_better_ones_behind_it() -> None:
    """With many rows the maximum moves by a factor of 2√2, and the bandwidth at a factor of √2 is bad."""

    def score(kernel: str, sigma: float, lam: float, rows: int) -> float:
        octave = math.log2(sigma)
        bad = rows > 5000 and math.isclose(octave, -0.5)
        return -abs(octave - (-1.5 if rows > 5000 else 0.0)) - 5 * bad

    best = Search(running(score)).best([Family("a", FIRST_BANDWIDTHS)], [1000, 4000, 16000])
    assert math.log2(best.candidate.bandwidth) == pytest.approx(-1.5)


@pytest.mark.parametrize(("steepness", "again"), [(5.0, False), (0.1, True)])
def test_a_bandwidth_with_a_far_larger_loss_is_not_tried_on_more_rows(steepness: float, again: bool) -> None:
    """A step of √2 from the best is always tried; the loss is 20 minus the score."""
    search = Search(running(lambda kernel, sigma, lam, rows: 19 - steepness * abs(math.log2(sigma / 0.5))))
    search.best([Family("a", FIRST_BANDWIDTHS)], [1000, 4000])
    tried = {trial.candidate.bandwidth for trial in search.trials if trial.stage == 1}
    assert (0.25 in tried) is again
    assert min(tried) < 0.5


def test_a_penalty_that_falls_with_the_rows_is_followed() -> None:
    def score(kernel: str, sigma: float, lam: float, rows: int) -> float:
        return -abs(math.log10(lam / (1.0 if rows < 5000 else 0.1))) - abs(math.log2(sigma))

    best = Search(running(score)).best([Family("a", FIRST_BANDWIDTHS)], [1000, 4000, 16000])
    assert best.lam == pytest.approx(0.1)


def test_no_candidate_is_run_twice_in_a_stage() -> None:
    search = Search(running(hill(1 / 8, 0.1)))
    search.best([Family("a", FIRST_BANDWIDTHS), Family("b", FIRST_BANDWIDTHS)], [1000, 4000, 16000])
    seen = [(t.stage, t.candidate.family.kernel, round(t.candidate.bandwidth, 6), t.lam) for t in search.trials]
    assert len(seen) == len(set(seen))


def test_later_stages_try_fewer() -> None:
    search = Search(running(hill(1 / 2, 1.0)))
    search.best([Family(name, FIRST_BANDWIDTHS) for name in "abcdef"], [1000, 4000, 16000])
    counts = [len({t.candidate for t in search.trials if t.stage == stage}) for stage in range(3)]
    assert counts[0] == 6 * (len(FIRST_BANDWIDTHS) + 1)  # and a wider one
    assert counts[1] <= 12  # three kernels, each with two narrower bandwidths and a wider one
    assert counts[2] <= 6  # two kernels, each with two narrower bandwidths


def test_given_bandwidths_and_penalties_are_the_only_ones() -> None:
    family = Family("a", (1.0, 3.0), free_bandwidths=False, lam=(0.5, 8.0, 2.0))
    search = Search(running(hill(0.01, 100.0)))
    best = search.best([family], [1000, 4000, 8000])
    assert {t.candidate.bandwidth for t in search.trials} == {1.0, 3.0}
    assert {t.lam for t in search.trials} == {0.5, 2.0, 8.0}
    assert (best.candidate.bandwidth, best.lam) == (1.0, 8.0)


def test_of_equal_losses_the_larger_penalty_wins() -> None:
    best = Search(running(lambda kernel, sigma, lam, rows: 1.0)).best([Family("a", FIRST_BANDWIDTHS)], [1000])
    assert best.lam == max(FIRST_LAMBDAS)


def test_of_equal_scores_the_smaller_loss_wins_where_scores_are_compared() -> None:
    """An accuracy counts rows, so that λ often have equal scores; the loss separates them."""

    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        return [Trial(stage, rows, candidate, lam, abs(math.log10(lam)), 0.9, 0.0) for lam in candidate.lam]

    best = Search(each(run), final_lam_by_score=True).best([Family("a", (1.0,), False, (10.0, 1.0, 0.1))], [1000])
    assert best.lam == 1.0


@pytest.mark.parametrize("by_score", [False, True])
def test_a_kernel_with_a_large_loss_is_dropped(by_score: bool) -> None:
    """Scores have no common scale, so that no kernel is dropped by its score."""
    search = Search(running(lambda kernel, sigma, lam, rows: 15.0 if kernel == "a" else 13.0), by_score=by_score)
    search.best([Family("a", FIRST_BANDWIDTHS), Family("b", FIRST_BANDWIDTHS)], [1000, 4000])
    assert {t.candidate.family.kernel for t in search.trials if t.stage == 1} == ({"a", "b"} if by_score else {"a"})


def test_losses_choose_bandwidths_and_scores_the_final_penalty_if_asked() -> None:
    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        off = abs(math.log2(candidate.bandwidth))
        return [Trial(stage, rows, candidate, lam, 1 + off + lam, off - lam, 0.0) for lam in candidate.lam]

    def trap(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        return [replace(t, score=-t.score) if rows == 8000 else t for t in run(stage, rows, candidate)]

    best = Search(each(trap)).best([Family("a", FIRST_BANDWIDTHS)], [1000, 4000, 8000])
    settled = Search(each(trap), final_lam_by_score=True).best([Family("a", FIRST_BANDWIDTHS)], [1000, 4000, 8000])
    assert best.candidate.bandwidth == settled.candidate.bandwidth == 1.0
    assert settled.lam == pytest.approx(10 * best.lam)


@pytest.mark.parametrize("allowed", [1, 3, 9, 12])
def test_out_of_time_the_best_of_the_latest_stage_wins(allowed: int) -> None:
    def out_of_time() -> bool:
        return len(ended) >= allowed

    ended: list[tuple[int, Candidate]] = []

    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        ended.append((stage, candidate))
        return scored_by(hill(1 / 4, 1.0))(stage, rows, candidate)

    search = Search(each(run, out_of_time), out_of_time=out_of_time)
    best = search.best([Family("a", FIRST_BANDWIDTHS), Family("b", FIRST_BANDWIDTHS)], [1000, 4000, 16000])
    assert len({(t.stage, t.candidate) for t in search.trials}) == allowed
    latest = [trial for trial in search.trials if trial.stage == search.trials[-1].stage]
    assert best.score == max(trial.score for trial in latest)


@pytest.mark.parametrize("by_score", [False, True])
def test_fewer_candidates_are_the_first_ones_of_a_longer_search(by_score: bool) -> None:
    """In the order in which they are run; the trials of a search that runs out of them are among those of all."""
    families = [Family(name, FIRST_BANDWIDTHS) for name in "abc"]

    def asked(count: float) -> list[tuple[int, Candidate]]:
        seen: list[tuple[int, Candidate]] = []
        run = running(hill(1 / 16, 0.1, "b"))

        def note(stage: int, rows: int, candidates: Sequence[Candidate]) -> list[list[Trial]]:
            seen.extend((stage, candidate) for candidate in candidates)
            return run(stage, rows, candidates)

        Search(note, max_candidates=count, by_score=by_score).best(families, [1000, 4000, 16000])
        return seen

    whole = asked(math.inf)
    assert len(whole) > 20
    for count in range(1, len(whole) + 1):
        assert asked(count) == whole[:count]


def moving(octaves: float) -> Formula:
    """A score whose maximum moves by so many factors of 2 to narrower bandwidths when the rows are multiplied by 4."""
    return lambda k, s, lam, rows: -abs(math.log2(s) + 1 + octaves * math.log(rows / 1000, 4))


@pytest.mark.parametrize(("octaves", "stages"), [(0.0, 2), (0.5, 2), (1.0, 4), (2.0, 4)])
def test_a_search_ends_with_the_first_stage_that_changes_nothing(octaves: float, stages: int) -> None:
    """If the bandwidth moves by more than the last step of a stage, all stages are run."""
    rows = [1000, 4000, 16000, 64000]
    search = Search(running(moving(octaves)), stop_when_stable=True)
    best = search.best([Family("a", FIRST_BANDWIDTHS)], rows)
    assert {t.rows for t in search.trials} == set(rows[:stages])
    assert best.rows == rows[stages - 1]
    assert abs(math.log2(best.candidate.bandwidth) + 1 + octaves * (stages - 1)) <= 0.25
    every = Search(running(moving(octaves)))
    every.best([Family("a", FIRST_BANDWIDTHS)], rows)
    assert {t.rows for t in every.trials} == set(rows)


def test_a_search_continues_if_the_kernel_or_the_weights_change() -> None:
    def score(kernel: str, sigma: float, lam: float, rows: int) -> float:
        return 0.1 * ((kernel == "late") == (rows > 2000)) - abs(math.log2(sigma / 0.5))

    search = Search(running(score), stop_when_stable=True)
    search.best([Family("early", FIRST_BANDWIDTHS), Family("late", FIRST_BANDWIDTHS)], [1000, 4000, 16000, 64000])
    assert {t.rows for t in search.trials} == {1000, 4000, 16000}

    def weighed(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        loss = 20 - 5 * (candidate.power == (0.5 if rows < 2000 else 0.0)) + abs(math.log2(candidate.bandwidth / 0.5))
        return [Trial(stage, rows, candidate, lam, loss, -loss, 0.0) for lam in candidate.lam]

    search = Search(
        each(weighed), stop_when_stable=True, reweight=lambda candidate, power: replace(candidate, power=power)
    )
    best = search.best([Family("a", FIRST_BANDWIDTHS, powers=(0.0, 0.5))], [1000, 4000, 16000, 64000])
    assert {t.rows for t in search.trials} == {1000, 4000, 16000}
    assert best.candidate.power == 0.0


def test_a_kernel_is_not_dropped_before_its_narrow_bandwidths_are_tried() -> None:
    """Its loss is large at the first bandwidths, and the smallest at the last one."""

    def score(kernel: str, sigma: float, lam: float, rows: int) -> float:
        return 10.0 if kernel == "plain" else 15 - 4 * abs(math.log2(sigma) + 4)

    families = [Family("plain", FIRST_BANDWIDTHS), Family("steep", FIRST_BANDWIDTHS)]
    best = Search(running(score)).best(families, [1000, 4000])
    assert best.candidate.family.kernel == "steep"
    assert math.log2(best.candidate.bandwidth) == pytest.approx(-4)


@pytest.mark.parametrize("pool", [10, 400, 1024, 1025, 2500, 5000, 30_000, 400_000, 10_000_000])
def test_stages_grow_steadily_to_a_quarter_and_then_half_of_the_rows(pool: int) -> None:
    rows = stage_rows(pool)
    assert len(rows) >= 2
    assert rows[0] == min(pool, 1024)
    assert rows[-1] == min(pool, max(4096, pool // 2))
    assert min(pool, max(2048, pool // 4)) in rows[-2:]
    assert all(a <= b <= 8 * a for a, b in pairwise(rows))


def test_given_penalties_are_tried_with_both_neighbours() -> None:
    family = Family("a", (1.0,), lam=(10.0, 0.1, 1.0, 100.0))
    assert [family.around(lam, ()) for lam in (0.1, 1.0, 10.0, 100.0)] == [
        (0.1, 1.0),
        (0.1, 1.0, 10.0),
        (1.0, 10.0, 100.0),
        (10.0, 100.0),
    ]
