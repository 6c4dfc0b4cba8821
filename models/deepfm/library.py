"""The one place that imports deepctr-torch."""

import sys
from types import ModuleType


def quiet_deepctr() -> ModuleType:
    """Return the package deepctr_torch, imported without its version check.

    Its `__init__` starts a thread that asks a package registry for news. The check is the only thing in
    `deepctr_torch.utils`, so a module that does nothing stands in for it. Torch is held to one thread: the process
    is one of several, and their pools would fight for the same cores.
    """
    if "deepctr_torch" not in sys.modules:
        stand_in = ModuleType("deepctr_torch.utils")
        stand_in.check_version = lambda _version: None  # type: ignore[attr-defined]
        sys.modules["deepctr_torch.utils"] = stand_in
    import deepctr_torch
    import torch

    torch.set_num_threads(1)
    return deepctr_torch
