"""
Serving with ONNX Runtime
=========================

An exported model runs without joker and torch. Its predictions are those of joker; the time of a request depends on
the number of training rows of an exact model, or on the number of random features.

``python examples/onnx_serving.py [--quick]``
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

import joker

n, repeats = (500, 5) if "--quick" in sys.argv else (4_000, 30)
rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (n, 8)).astype(np.float32)
y = np.where(np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 4 > 0, "yes", "no")
X_test = rng.uniform(-3, 3, (1_000, 8)).astype(np.float32)

models = {
    f"exact, {n:,} rows": joker.KernelLogistic(lam=1.0),
    "300 features": joker.KernelLogistic(lam=1.0, n_features=300, random_state=0),
}
batches = [1, 3, 10, 30, 100, 300, 1_000]
milliseconds = {}
for name, model in models.items():
    model.fit(X, y)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        joker.export.to_onnx(model, path, dtype="float32")
        size = path.stat().st_size
        session = onnxruntime.InferenceSession(path)
    (p,) = session.run(["probabilities"], {"inputs": X_test})
    difference = np.abs(p - model.predict_proba(X_test)).max()
    print(f"{name:18} {size / 1e3:6.0f} kB   largest difference of a probability {difference:.1e}")
    for rows in batches:
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            session.run(["probabilities"], {"inputs": X_test[:rows]})
            times.append(time.perf_counter() - start)
        milliseconds.setdefault(name, []).append(1e3 * np.median(times))

# %%
# A request has a fixed cost, so that rows which are sent together are cheaper.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for (name, times), style in zip(milliseconds.items(), ("C2s-", "C0o-"), strict=True):
    ax.loglog(batches, times, style, label=name)
ax.set(xlabel="rows in a request", ylabel="median time of a request, ms")
ax.legend()
plt.show()
