"""What each program finds: the torch and the tables of a fresh prompt.

conf.py names the function by a string, which keeps its values picklable.
"""

from __future__ import annotations

import sys
from typing import Any


def reset_torch(gallery_conf: dict[str, Any], fname: str) -> None:
    """Give every snippet the torch and tables of a fresh prompt."""
    import torch

    if hasattr(torch, "set_default_device"):  # since torch 2.0
        torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_printoptions(profile="default")
    torch.seed()  # at random, so that a forgotten seed shows
    torch.set_num_threads(1)  # no output depends on the machine's cores
    torch.set_warn_always(True)  # not once in a process that runs them all
    # Asked first, since the call imports the whole compiler: two seconds.
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)
    torch.autograd.set_detect_anomaly(False)
    if hasattr(torch.backends, "fp32_precision"):  # since torch 2.9
        torch.backends.fp32_precision = "none"
    # Not asked first: asking fails while the two names for it differ.
    torch.set_float32_matmul_precision("highest")
    if "torch._dynamo" in sys.modules:  # else there is nothing to forget
        torch.compiler.reset()
    torch.backends.cudnn.enabled = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.allow_tf32 = True
    sys.excepthook = sys.__excepthook__  # torch.distributed sets another
    if pandas := sys.modules.get("pandas"):
        pandas.reset_option("^display.")
