"""What TabArena runs: the default and the random configurations of the model, and the efforts of the system.

No value was chosen by a result of TabArena.
"""

from __future__ import annotations

from autogluon.common.space import Categorical, Real
from joker_model import JokerKernelModel
from joker_system import JokerSystem
from tabarena.utils.config_utils import ConfigGenerator, SystemConfigGenerator

SPACE = {
    "kernel": Categorical("gaussian", "laplacian", "matern32"),
    "share": Real(0.1, 2.0, default=0.5, log=True),  # of the median distance: the bandwidth
    "scaler": Categorical("quantile", "standard"),
    "loss": Categorical("auto", "huber"),  # of regression
    "most_levels": Categorical(30, 10, 100),
}

MODEL = ConfigGenerator(model_cls=JokerKernelModel, manual_configs=[{}], search_space=SPACE)
SYSTEM = SystemConfigGenerator(model_cls=JokerSystem, name="Joker", manual_configs=[{"effort": 3}, {"effort": 5}])
