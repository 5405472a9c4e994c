"""Draw docs/figures/start.png, the picture of the start page and of the README: python docs/start_picture.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from joker import KernelHuber, KernelQuantile, KernelRidge, KernelSVC

rng = np.random.default_rng(0)
plt.style.use("seaborn-v0_8-colorblind")
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained")

X = rng.uniform(-3, 3, (2_000, 2))
angle, radius = np.arctan2(X[:, 1], X[:, 0]), np.hypot(X[:, 0], X[:, 1])
y = (np.sin(angle + 2.2 * radius) > 0) ^ (rng.random(2_000) < 0.1)
axis = np.linspace(-3, 3, 250)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
f = KernelSVC(kernel="matern32", lam=0.5).fit(X, y).decision_function(grid).reshape(250, 250)
left.imshow(f, extent=(-3, 3, -3, 3), origin="lower", cmap="PuOr", vmin=-1.5, vmax=1.5, aspect="auto")
left.contour(axis, axis, f, levels=[0], colors="black", linewidths=1)
left.scatter(*X[:500].T, c=np.where(y[:500], "#3b1a5c", "#8a4500"), s=4, linewidths=0)
left.set(title="KernelSVC: two classes, 10 % wrong labels", xlabel="first input", ylabel="second input")

X = rng.uniform(0, 10, (5_000, 1))
y = np.sin(X[:, 0]) + (0.1 + 0.1 * X[:, 0]) * rng.normal(size=5_000)
line = np.linspace(0, 10, 300)[:, None]
model = KernelQuantile(quantile=[0.05, 0.25, 0.5, 0.75, 0.95], lam=1.0, bandwidth=1.0, n_features=300, random_state=0)
low, lower, median, upper, high = model.fit(X, y).predict(line).T
middle.plot(X[:1200, 0], y[:1200], ".", color="0.75", markersize=3, zorder=0)
middle.fill_between(line[:, 0], low, high, color="C0", alpha=0.25, linewidth=0, label="5 % to 95 %")
middle.fill_between(line[:, 0], lower, upper, color="C0", alpha=0.45, linewidth=0, label="25 % to 75 %")
middle.plot(line[:, 0], median, color="C0", label="median")
middle.set(title="KernelQuantile: five levels in one fit", xlabel="x", ylabel="y", xlim=(0, 10), ylim=(-4, 4.6))
middle.legend(loc="upper left", ncols=3, fontsize=8)

X = rng.uniform(-3, 3, (3_000, 1))
y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=3_000)
wrong = rng.random(3_000) < 0.1
y[wrong] += rng.uniform(3, 12, wrong.sum())
line = np.linspace(-3, 3, 300)[:, None]
settings = dict(lam=0.1, bandwidth=1.0, n_features=300, random_state=0)
right.plot(X[:1200, 0], y[:1200], ".", color="0.75", markersize=3)
right.plot(line[:, 0], np.sin(2 * line[:, 0]), "k--", label="truth")
right.plot(line[:, 0], KernelRidge(**settings).fit(X, y).predict(line), "C2-.", label="KernelRidge")
right.plot(line[:, 0], KernelHuber(delta=0.05, **settings).fit(X, y).predict(line), "C0-", label="KernelHuber")
right.set(title="KernelHuber: 10 % outliers", xlabel="x", ylabel="y", xlim=(-3, 3), ylim=(-1.6, 3.4))
right.legend(loc="upper center", ncols=3, fontsize=8)

figure.savefig(Path(__file__).parent / "figures" / "start.png", dpi=130)
