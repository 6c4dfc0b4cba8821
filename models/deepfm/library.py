"""The one place that imports deepctr-torch, which by itself reaches for the network and prints."""

import sys
from types import ModuleType


def quiet_deepctr() -> None:
    """Import deepctr_torch without its version check and its prints; hold torch to one thread.

    Its `__init__` starts a thread that asks a package registry for news; that check is all there is in
    `deepctr_torch.utils`, so a module that does nothing stands in for it. Its `fit` prints what it is about to do; a
    name in its module takes precedence over the builtin, where redirecting stdout would catch other threads' output.
    One thread, because the process is one of several on its machine and their pools would fight for the cores.
    """
    if "deepctr_torch" not in sys.modules:
        stand_in = ModuleType("deepctr_torch.utils")
        stand_in.check_version = _nothing  # type: ignore[attr-defined]
        sys.modules["deepctr_torch.utils"] = stand_in
    import torch
    from deepctr_torch.models import basemodel

    basemodel.print = _nothing
    torch.set_num_threads(1)


def _nothing(*_arguments: object) -> None:
    pass
