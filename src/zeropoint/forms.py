"""The forms in which the Python API takes data and recipes. Every package may import this module; it imports none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Data = str | Path | Mapping[str, Any] | Iterable[Any] | Callable[[], Iterable[Any]]
"""Calibration or test data.

Either an .npz file, a folder of .npy files, `zp.Images` of a folder, a dict of arrays with a leading sample axis, or an
array for a model with a single input. Or an iterable of samples or batches: a generator function, a PyTorch DataLoader
or a Hugging Face dataset. Each sample is a dict, an array, or a tuple of inputs with an optional label at the end.
"""
Recipe = str | Path | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""The path of a YAML file with rules, the rules as dicts, or the whole file as a dict."""
