"""
A table with categories, dates and missing values
=================================================

``JokerRegressor`` takes a DataFrame of mixed types. It infers the types of the columns, encodes them, searches the
hyperparameters (kernel, bandwidth and λ), and predicts with intervals. ``effort`` says how much is searched.

``python examples/raw_table.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from joker import JokerRegressor

n, effort = (300, 1) if "--quick" in sys.argv else (1_500, 2)
rng = np.random.default_rng(0)
towns = {"Bern": 2.0, "Basel": 2.6, "Chur": 1.4, "Genf": 3.1, "Zug": 3.5}


def sample(n):
    """Draw houses as dicts; one year in five and one town in ten is missing."""
    houses, prices = [], []
    for number in range(n):
        size, town = float(rng.lognormal(4.5, 0.4)), str(rng.choice(list(towns)))
        year, sold = int(rng.integers(1900, 2020)), np.datetime64("2018-01-01") + int(rng.integers(0, 1_800))
        trend = 1 + 0.1 * (sold - np.datetime64("2018-01-01")).astype(int) / 365
        price = size * towns[town] * trend * (1 + 0.002 * (year - 1960)) * float(rng.lognormal(0, 0.08))
        house = {"house": f"h{number:05d}", "size": size, "town": town, "built": year, "sold": str(sold)}
        house["built"] = None if rng.random() < 0.2 else year
        house["town"] = None if rng.random() < 0.1 else town
        houses.append(house)
        prices.append(price)
    return houses, np.array(prices)


houses, prices = sample(n)
new_houses, new_prices = sample(500)
model = JokerRegressor(effort=effort, random_state=0).fit(houses, prices)
predicted, band = model.predict(new_houses), model.predict_interval(new_houses, coverage=0.9)
inside = np.mean((band[:, 0] <= new_prices) & (new_prices <= band[:, 1]))
print(f"R² {model.score(new_houses, new_prices):.3f} on new houses, {inside:.0%} inside their 90 % interval")
print(model)
for column in model.columns_:
    print(f"  {column['name']:6} {column['kind']:9} {column['encoding']}")

# %%
# The column with the names of the houses is left out. The importance of a column is the loss that its shuffling
# causes.

plt.style.use("seaborn-v0_8-colorblind")
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), width_ratios=[3, 2], layout="constrained")
order = np.argsort(predicted)
left.fill_between(predicted[order], *band[order].T, color="C0", alpha=0.25, linewidth=0, label="90 % interval")
left.plot(predicted, new_prices, ".", color="C0", markersize=4, label="new houses")
limit = [0, float(np.quantile(new_prices, 0.995))]
left.plot(limit, limit, "--", color="0.4", linewidth=1, label="exact")
left.set(xlabel="predicted price, 1,000 CHF", ylabel="true price, 1,000 CHF", xlim=limit, ylim=limit)
left.legend(loc="upper left")
names = [column["name"] for column in model.columns_]
right.barh(names, 100 * model.feature_importances_, color="C0")
right.set(xlabel="importance, %")
right.invert_yaxis()
plt.show()
